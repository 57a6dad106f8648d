"""The settings of proxies, which `urllib` reads on macOS."""


def _get_proxy_settings() -> dict[str, object]:
    return {}


def _get_proxies() -> dict[str, str]:
    return {}
