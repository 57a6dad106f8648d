"""The list of files that usually contain secrets, for the sandbox, the tools of models, and `submit`.

Each entry is a file, or a folder with everything in it. In patterns `*` is any text within a name.
"""

import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from coterie.base.folder_names import FolderNames
from coterie.team.options.backends import STATES
from coterie.team.options.states import WHOLE


def _entries(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _of_agents() -> Iterator[str]:
    for state in (state for states in STATES.values() for state in states):
        for name in state.secrets.split():
            yield state.folder if name == WHOLE else f"{state.folder}/{name}"


IN_HOME = (
    *_of_agents(),
    *_entries("""
    .ssh .gnupg .netrc _netrc .git-credentials .config/git/credentials .config/gh .config/hub .config/glab-cli
    .password-store .local/share/keyrings .local/share/kwalletd .config/keybase .config/age .config/sops .age
    .config/Bitwarden* .config/keepassxc .config/1Password .config/op .op .vault-token Library/Keychains
    .aws .azure .oci .kube .minikube .config/gcloud .config/doctl .config/hcloud .config/scw .config/linode-cli
    .config/exoscale .s3cfg .boto .config/rclone .config/restic .terraform.d .terraformrc .pulumi .ansible .fly .vercel
    .config/fly .config/netlify .config/heroku .config/stripe .config/.wrangler .wrangler .config/configstore
    .local/share/com.vercel.cli .config/helm .config/argocd .databrickscfg .snowflake .snowsql .kaggle .huggingface
    .cache/huggingface/token .config/openai .config/anthropic .config/solana .config/temporalio .config/coterie
    .pgpass .pg_service.conf .postgresql .my.cnf .mylogin.cnf .mongorc.js
    .docker/config.json .config/containers/auth.json .npmrc .yarnrc .yarnrc.yml .pypirc .pip/pip.conf
    .config/pip/pip.conf .config/pypoetry .local/share/uv/credentials .gem/credentials .local/share/gem/credentials
    .bundle/config .m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties .ivy2/.credentials
    .sbt/.credentials .sbt/credentials .cargo/credentials .cargo/credentials.toml .composer/auth.json
    .config/composer/auth.json .nuget/NuGet .config/NuGet .hex/hex.config .condarc
    .config/google-chrome* .config/chromium .config/BraveSoftware .config/microsoft-edge* .config/vivaldi .config/opera
    .mozilla .librewolf .zen .thunderbird snap/firefox snap/chromium snap/brave snap/thunderbird .var/app
    .config/Signal .config/Slack .config/discord .config/Element .local/share/evolution .electrum .bitcoin .ethereum
    .local/share/amazon-q .config/Cursor .config/amp .local/share/amp .augment
    .bash_history .zsh_history .local/share/fish/fish_history .psql_history .mysql_history .rediscli_history
"""),
)
"""Paths in a home: logins of agents, keys, other logins, sessions of browsers, histories of shells."""

MOVED = {
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    **{"AWS_SHARED_CREDENTIALS_FILE": ".aws", "AWS_CONFIG_FILE": ".aws", "AWS_WEB_IDENTITY_TOKEN_FILE": ".aws"},
    **{"AZURE_CONFIG_DIR": ".azure", "CLOUDSDK_CONFIG": ".config/gcloud", "KUBECONFIG": ".kube"},
    **{"GOOGLE_APPLICATION_CREDENTIALS": ".config/gcloud", "RCLONE_CONFIG": ".config/rclone", "BOTO_CONFIG": ".boto"},
    **{"GNUPGHOME": ".gnupg", "PASSWORD_STORE_DIR": ".password-store", "SOPS_AGE_KEY_FILE": ".config/sops"},
    **{"NETRC": ".netrc", "PGPASSFILE": ".pgpass", "VAULT_TOKEN_PATH": ".vault-token", "GH_CONFIG_DIR": ".config/gh"},
    **{"DOCKER_CONFIG": ".docker", "REGISTRY_AUTH_FILE": ".config/containers/auth.json", "PULUMI_HOME": ".pulumi"},
    **{"NPM_CONFIG_USERCONFIG": ".npmrc", "npm_config_userconfig": ".npmrc", "CARGO_HOME": ".cargo"},
    **{"GRADLE_USER_HOME": ".gradle", "COMPOSER_HOME": ".composer", "BUNDLE_USER_HOME": ".bundle"},
}
"""Variables that move such a path, or a folder of such paths, with the default path in a home."""

SOCKETS = _entries(".docker/run .docker/desktop .1password .colima .lima .orbstack .rd .podman .multipass")
"""Folders in a home with sockets of services that act with the user's keys, or as root."""

ANYWHERE = _entries("""
    .env .env.* .env-* .env_* *.env .envrc *.pem *.key *.p8 *.p12 *.pfx *.jks *.keystore *.kdbx *.ppk *.ovpn
    id_rsa id_dsa id_ecdsa id_ed25519 id_ecdsa_sk id_ed25519_sk kubeconfig *.kubeconfig terraform.tfstate*
    secrets.json secrets.yaml secrets.yml secrets.toml .vault_pass* application_default_credentials.json
    credentials.json service-account*.json service_account*.json client_secret*.json
    .htpasswd .dockercfg .dev.vars
""")
"""Secret names in any folder."""

EXAMPLES = _entries("""
    *.example *-example *_example *.sample *-sample *.template *.dist *.pub
    example.env sample.env template.env cacert.pem roots.pem
""")
"""Names that match although they contain no secret."""

DEPENDENCIES = frozenset({".git", "node_modules", "site-packages"})
"""Large folders without the user's secrets."""

ON_SYSTEM = _entries("""
    /etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/ssh/ssh_host_*_key /etc/ssl/private /etc/letsencrypt
    /etc/kubernetes /etc/rancher /etc/krb5.keytab /etc/wireguard /etc/NetworkManager/system-connections /var/lib/docker
    /var/lib/containers /var/lib/kubelet /var/lib/rancher /var/lib/lxd /var/lib/incus /var/snap/lxd
    /etc/openvpn /etc/ipsec.secrets /etc/ppp/*-secrets /etc/mysql/debian.cnf /etc/postfix/sasl_passwd*
    /var/lib/cloud /var/lib/sss/secrets /var/backups/*shadow* /var/run/secrets /var/run/docker.sock
""")
"""Paths of the machine, including sockets that give root access; most are readable only by root."""


def is_secret(path: str | os.PathLike[str]) -> bool:
    """Whether *path*, a file or folder, usually contains secrets, judged by its name and those of its folders.

    The file need not exist, and *path* may be relative to any folder, so entries for a home also match in a copy of a
    home. Case is ignored.
    """
    return _expression().search(os.fspath(path).replace(os.sep, "/").lower()) is not None


def in_home(home: Path) -> Iterator[Path]:
    """The existing paths in *home* with secrets or sockets."""
    try:
        names = _NAMES.of(home)
    except OSError:
        return
    for name in names:
        for entry in _by_top().get(name, ()):
            yield from _existing(home, entry)
        if is_secret(name):
            yield home / name


def moved(env: Mapping[str, str]) -> Iterator[Path]:
    """The existing paths with secrets that variables of *env* name in place of those in the home."""
    for variable, place in MOVED.items():
        for name in filter(os.path.isabs, env.get(variable, "").split(os.pathsep)):
            for entry in IN_HOME:
                if entry == place:
                    yield from _existing(Path("/"), name[1:])
                elif entry.startswith(f"{place}/"):
                    yield from _existing(Path(name), entry.removeprefix(f"{place}/"))


def below(folder: Path) -> Iterator[Path]:
    """The paths below *folder* with secrets, except in its dependencies."""
    for top, folders, names in os.walk(folder):
        place = os.path.relpath(top, folder)
        found = {name for name in (*folders, *names) if is_secret(os.path.join(place, name))}
        yield from (Path(top, name) for name in sorted(found))
        folders[:] = [name for name in folders if name not in found | DEPENDENCIES]


@cache
def on_system() -> list[Path]:
    """The paths of the machine with secrets or sockets that this process could open."""
    found = (path for entry in ON_SYSTEM for path in _existing(Path("/"), entry[1:]))
    return [path.resolve() for path in found if os.access(path, os.R_OK)]


def _existing(folder: Path, entry: str) -> Iterator[Path]:
    if "*" in entry:
        yield from folder.glob(entry)
    elif os.path.lexists(f"{folder}/{entry}"):
        yield folder / entry


@cache
def _by_top() -> dict[str, list[str]]:
    """The entries for a home, by their first path component."""
    found: dict[str, list[str]] = {}
    for entry in (*IN_HOME, *SOCKETS):
        found.setdefault(entry.partition("/")[0], []).append(entry)
    return found


_NAMES = FolderNames(lambda name: name in _by_top() or is_secret(name))
"""The names in a home that may be secret, or of folders with secrets."""


@cache
def _expression() -> re.Pattern[str]:
    examples, entries = ("|".join(map(_pattern, names)) for names in (EXAMPLES, (*ANYWHERE, *IN_HOME, *SOCKETS)))
    return re.compile(rf"(?:^|/)(?!(?:{examples})(?:/|$))(?:{entries})(?:/|$)")


def _pattern(entry: str) -> str:
    return "[^/]*".join(map(re.escape, entry.lower().split("*")))
