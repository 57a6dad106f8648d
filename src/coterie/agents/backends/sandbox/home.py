"""The visible part of a home for confined programs: toolchains, and paths that the user names.

Everything else is hidden, so a key, a login or a socket that is on no list is also hidden.
"""

import os
import pwd
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from itertools import accumulate, groupby
from pathlib import Path

from coterie.base.folder_names import FolderNames
from coterie.team.options.secret_files import is_secret

READS = "COTERIE_SANDBOX_READS"
"""The owner's variable with further readable paths for confined programs, in the format of PATH."""


def _entries(text: str) -> tuple[str, ...]:
    return tuple(text.split())


TOOLS = _entries("""
    .gitconfig .config/git .gitignore .gitignore_global .gitattributes .tool-versions .editorconfig .terminfo
    .local/bin .local/lib .local/libexec .local/include .linuxbrew .nix-profile .nix-defexpr .local/state/nix
    .asdf .local/share/asdf .local/share/mise .config/mise .local/share/rtx .proto
    .pyenv .python-version .virtualenvs .local/share/virtualenvs .local/share/uv .local/share/pipx .local/pipx .rye
    .local/share/pypoetry .local/share/hatch .local/share/pdm miniconda3 miniforge3 anaconda3 mambaforge micromamba
    .cache/pypoetry .cache/pre-commit .cache/pip .conda
    .nvm .config/nvm .fnm .local/share/fnm .volta .n .nodenv .npm .npm-global .npm-packages .yarn .bun .deno
    .cache/node .cache/yarn .cache/node-gyp .cache/corepack .cache/ms-playwright .cache/puppeteer .cache/Cypress
    .pnpm-store .local/share/pnpm .cache/pnpm .cache/deno
    .cargo .rustup go sdk .goenv .gvm .config/go .zig .cache/zig .elan .swiftly .swiftpm
    .m2 .gradle .sdkman .jenv .jdks .ivy2 .sbt .jbang .local/share/coursier .cache/coursier .konan
    .rbenv .rvm .gem .local/share/gem .bundle .local/share/ruby .rubies
    .composer .config/composer .phpenv .perl5 perl5 .plenv .cpan .cpanm .luarocks .opam .ghcup .cabal .stack
    .local/share/ghcup .juliaup .julia .mix .hex .cache/rebar3 .kerl .dotnet .nuget .pub-cache .flutter .Rprofile R
    .local/share/claude
""")
"""Paths in a home with programs, libraries and settings of toolchains; secrets among them are hidden."""

_TOPS = {top: [*names] for top, names in groupby(sorted(TOOLS), lambda name: name.partition("/")[0])}
_NAMES = FolderNames(_TOPS.__contains__)
"""The names in a home of them, or of their folders."""

VARIABLES = _entries("""
    PYENV_ROOT VIRTUAL_ENV CONDA_PREFIX CONDA_ROOT PYTHONPATH PYTHONHOME PIPX_HOME POETRY_HOME UV_PYTHON_INSTALL_DIR
    NVM_DIR FNM_DIR VOLTA_HOME N_PREFIX PNPM_HOME BUN_INSTALL DENO_DIR DENO_INSTALL NODE_PATH NODE_EXTRA_CA_CERTS
    PLAYWRIGHT_BROWSERS_PATH CARGO_HOME RUSTUP_HOME GOROOT GOPATH GOMODCACHE JAVA_HOME M2_HOME MAVEN_HOME GRADLE_HOME
    GRADLE_USER_HOME SDKMAN_DIR KOTLIN_HOME ANDROID_HOME ANDROID_SDK_ROOT GEM_HOME GEM_PATH RBENV_ROOT COMPOSER_HOME
    OPAMROOT GHCUP_INSTALL_BASE_PREFIX STACK_ROOT JULIA_DEPOT_PATH DOTNET_ROOT NUGET_PACKAGES ASDF_DIR ASDF_DATA_DIR
    MISE_DATA_DIR PERL5LIB LD_LIBRARY_PATH LIBRARY_PATH CPATH PKG_CONFIG_PATH MANPATH TERMINFO CMAKE_PREFIX_PATH
    SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE GIT_SSL_CAINFO PIP_CERT PIP_FIND_LINKS UV_FIND_LINKS
""")
"""Variables with such paths."""
_HOMES, _INSTALLATIONS = "/home", ("linuxbrew",)
_TOP = 2
"""The number of parts of a path that is not a person's home, such as `/usr`."""


def homes_of(env: Mapping[str, str]) -> list[Path]:
    """The homes to hide from a program with the environment *env*: its own, and the user's if a file changed HOME."""
    names = [env.get("HOME", ""), os.path.expanduser("~")]
    with suppress(KeyError):
        names.append(pwd.getpwuid(os.getuid()).pw_dir)
    found = dict.fromkeys(Path(name).resolve() for name in names if os.path.isabs(name))
    return [home for home in found if home.is_dir() and (len(home.parts) > _TOP or home == Path("/root"))]


def homes_of_others(homes: Collection[Path]) -> list[Path]:
    """The homes beside *homes* that this process could read, as root can."""
    try:
        found = [Path(_HOMES, name) for name in os.listdir(_HOMES) if name not in _INSTALLATIONS]
    except OSError:
        return []
    return [one for one in found if one not in homes and os.access(one, os.R_OK) and one.is_dir()]


def visible(home: Path, env: Mapping[str, str]) -> Iterator[tuple[Path, Path]]:
    """The visible paths in *home* for a program with the environment *env*.

    Each is given by its name, or the link that leads to it, and by its real path.
    """
    within = os.path.join(home, "")
    present: Collection[str] = _TOPS
    with suppress(OSError):  # it can be entered and not be listed
        present = _NAMES.of(home)
    paths = [within + name for top in present for name in _TOPS[top]]
    for folder in env.get("PATH", "").split(os.pathsep):
        if folder.startswith(within):
            paths += _with_prefix(folder.rstrip("/"), home)
    for variable in VARIABLES:
        paths += env.get(variable, "").split(os.pathsep)
    for name in dict.fromkeys(paths):
        below = name.removeprefix(within)
        if below != name and os.path.exists(name) and not is_secret(below):
            steps = accumulate(below.split("/"), os.path.join, initial=str(home))
            link = next((step for step in steps if os.path.islink(step)), None)
            yield Path(link or name), Path(os.path.realpath(name) if link else name)


def named() -> list[Path]:
    """The paths that the user names."""
    paths = os.environ.get(READS, "").split(os.pathsep)
    return [Path(os.path.expanduser(path)) for path in paths if path]


def _with_prefix(folder: str, home: Path) -> list[str]:
    """A *folder* of programs, with the folders beside it if they are the installation of a toolchain."""
    prefix, name = os.path.split(folder)
    is_installation = any(os.path.exists(f"{prefix}/{part}") for part in ("lib", "pyvenv.cfg", "versions"))
    is_general = prefix in (str(home), f"{home}/.local")
    return [folder, prefix] if name in ("bin", "shims") and is_installation and not is_general else [folder]
