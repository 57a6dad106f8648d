"""The address of a cluster: one form, and no secret in it comes out again."""

import asyncio
from pathlib import Path

import pytest
from bundles import bundle
from cluster_stage import Server

from coterie.errors import ClusterFailed, UsageError
from coterie.execution.cluster import node_secrets
from coterie.execution.cluster.address import ClusterAddress, connected, reason
from coterie.execution.cluster.node_secrets import secret_paths
from coterie.execution.runs.repository import LocalRuns
from coterie.interfaces.cli.options import HomeOptions


def test_an_address_names_server_namespace_and_export() -> None:
    """The export is all that follows, its own options included."""
    found = ClusterAddress.parse("temporal://t.lan:7233/runs?export=postgresql://ada:pw@db.lan/x?sslmode=require&a=b")
    assert (found.host, found.namespace) == ("t.lan:7233", "runs")
    assert found.export == "postgresql://ada:pw@db.lan/x?sslmode=require&a=b"
    assert str(found) == repr(found) == "temporal://t.lan:7233/runs?export=postgresql://db.lan/x"
    assert ClusterAddress.parse("temporal:///?export=/var/runs") == ClusterAddress("", "", "/var/runs")


@bundle(
    ("text", "said"),
    [
        ("t.lan:7233", "a cluster's address is temporal://"),
        ("http://t.lan/ns?export=/x", "a cluster's address is temporal://"),
        ("temporal://key@t.lan/ns?export=/x", "come from TEMPORAL_"),
        ("temporal://t.lan/a/b?export=/x", "a cluster's address is"),
        ("temporal://t.lan/ns", "says no export"),
        ("temporal://t.lan/ns?export=", "says no export"),
        ("temporal://t.lan/ns?export=mysql://x", "not mysql"),
        ("temporal://t.lan:99999/ns?export=/x", "the port .* is none"),
        ("temporal://t.lan:key/ns?export=/x", "the port .* is none"),
    ],
)
def test_what_is_no_address(text: str, said: str) -> None:
    """Each fault is named, and the form with it; the text itself may hold a secret and is not repeated."""
    with pytest.raises(UsageError, match=said) as refused:
        ClusterAddress.parse(text)
    assert "key@" not in str(refused.value)


def test_a_command_takes_the_first_address_that_is_given(
    own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option, else the variable, else the setting of the user or of the project here; an empty one is none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COTERIE_CLUSTER", raising=False)
    assert ClusterAddress.given() is None

    settings = own_home / "settings" / "autoloop" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[cluster]\nurl = "temporal://user/ns?export=/x"\n')
    assert ClusterAddress.given() == ClusterAddress("user", "ns", "/x")
    (tmp_path / "autoloops.toml").write_text('[cluster]\nurl = "temporal://project/ns?export=/x"\n')
    assert ClusterAddress.given() == ClusterAddress("project", "ns", "/x")
    monkeypatch.setenv("COTERIE_CLUSTER", "temporal://env/ns?export=/x")
    assert ClusterAddress.given() == ClusterAddress("env", "ns", "/x")
    assert ClusterAddress.given("temporal://option/ns?export=/x") == ClusterAddress("option", "ns", "/x")
    assert ClusterAddress.given("") is None

    options = HomeOptions(state_dir=tmp_path / "state")
    assert options.where == tmp_path / "state", "a directory that was given comes before a configured cluster"
    assert LocalRuns(Path(".coterie")).option == " --cluster ''"


@pytest.mark.parametrize("secret", ["ada:geheim@", "?password=geheim", "?sslpassword=geheim"])
def test_a_password_is_taken_from_the_environment_only(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others can read a command line and a file of settings; the message does not repeat it."""
    user, query = (secret, "") if "@" in secret else ("", secret)
    url = f"temporal://t/ns?export=postgresql://{user}db/x{query}"
    monkeypatch.delenv("COTERIE_CLUSTER", raising=False)
    with pytest.raises(UsageError, match="PGPASSWORD") as refused:
        ClusterAddress.given(url)
    assert "geheim" not in str(refused.value)
    monkeypatch.setenv("COTERIE_CLUSTER", url)
    assert "geheim" not in repr(ClusterAddress.given())


def test_files_with_secrets_of_a_cluster_are_hidden_from_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that variables and the address of the export name, and an export that is a folder."""
    named = {"PGPASSFILE": "/a", "PGSERVICEFILE": "/b", "PGSSLKEY": "/c", "TEMPORAL_CONFIG_FILE": "/d"}
    named["TEMPORAL_TLS_CLIENT_KEY_PATH"] = ""
    for name, path in named.items():
        monkeypatch.setenv(name, path)
    there = {Path(path) for path in named.values() if path}
    url = "postgresql://db/x?sslkey=/e&passfile=/f&servicefile=/g&sslmode=require"
    assert {*secret_paths(url)} == there | {Path("/e"), Path("/f"), Path("/g")}
    assert {*secret_paths("/export")} == {*secret_paths("file:///export")} == there | {Path("/export")}


def test_a_namespace_that_is_not_there_and_an_export_that_is_away_are_found_out_at_once(
    temporal_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that could only fail the turns it takes does not begin to serve."""
    monkeypatch.setattr("coterie.history.journal.postgres.ANSWER_WITHIN", 0.0)

    async def main(text: str) -> None:
        async with connected(ClusterAddress.parse(text)):
            pass

    with pytest.raises(ClusterFailed, match=r"^temporal://127\.0\.0\.1:\d+: Namespace absent is not found\.$"):
        asyncio.run(main(f"temporal://{temporal_server.address}/absent?export=/tmp/none"))
    with pytest.raises(ClusterFailed, match=r"^postgresql://127\.0\.0\.1:9/x: .*Connect"):
        asyncio.run(main(f"temporal://{temporal_server.address}/default?export=postgresql://127.0.0.1:9/x"))


def test_of_what_went_wrong_with_a_server_the_last_message_is_said() -> None:
    """Also where it goes away while a client connects."""
    said = 'Failed client connect: Status { message: "transport", source: Custom { error: "a broken pipe" } }'
    assert reason(RuntimeError(said)) == "the server cannot be reached: a broken pipe"
    assert reason(RuntimeError("Namespace absent\nis not found.")) == "Namespace absent is not found."


def test_a_server_that_is_away_is_an_error_that_names_it() -> None:
    """It does not wait for ever."""
    pytest.importorskip("temporalio")

    async def main() -> None:
        async with connected(ClusterAddress.parse("temporal://127.0.0.1:9/default?export=/tmp/none")):
            pass

    with pytest.raises(
        ClusterFailed, match=r"^temporal://127\.0\.0\.1:9: the server cannot be reached: Connection refused$"
    ):
        asyncio.run(main())


def test_the_login_of_the_database_is_what_was_held_back_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client no longer finds it in the environment; what is empty is none."""
    monkeypatch.setattr(node_secrets, "_held", {"PGPASSWORD": "pw", "PGPASSFILE": "", "TEMPORAL_API_KEY": "key"})

    assert node_secrets.database_login() == {"password": "pw"}
