"""Which names of files are taken for secrets."""

from bundles import bundle

from coterie.team.options.secret_files import is_secret

SECRET = (
    ".env config/prod.env .env.local .envrc server.PEM keys/id_rsa .docker/config.json backup/.kube/config "
    "credentials.json service-account-prod.json cert.p12 .config/gh/hosts.yml ../../home/.aws/credentials .npmrc "
    ".m2/settings.xml .ssh/known_hosts .1password/agent.sock Snap/Firefox/common/key4.db "
    "terraform.tfstate.backup stage.kubeconfig id_ed25519_sk secrets.yml .env_prod AuthKey_1.p8 .vault_pass.txt "
    ".claude/.credentials.json .pi/agent/auth.json .codex/auth.json .gemini/mcp-oauth-tokens-v2.json "
    ".local/share/opencode/auth.json .local/share/kiro-cli/data.sqlite3 .config/goose/secrets.yaml "
    ".copilot/config.json .cursor/auth.json .qwen/oauth_creds.json"
)
PLAIN = (
    ".env.example sample.env id_rsa.pub src/key.py monkey.keys docker/config.json environment.yml keyboard.md "
    "settings.xml .config/git/ignore credentials.py envoy.yaml .cursor/rules "
    ".claude/settings.json .pi/agent/settings.json .codex/config.toml "
    ".env-example venv/site-packages/certifi/cacert.pem main.tf secrets.py"
)


@bundle(("path", "wanted"), [*((path, True) for path in SECRET.split()), *((path, False) for path in PLAIN.split())])
def test_a_path_is_judged_by_its_names(path: str, wanted: bool) -> None:
    """Of the file and of its folders, in upper and lower case, from any folder on."""
    assert is_secret(path) is wanted


def test_a_long_path_takes_no_time() -> None:
    """An agent may name any path: the time is linear in its length."""
    assert not is_secret("a/" * 20_000 + "x.pe" * 20_000)
