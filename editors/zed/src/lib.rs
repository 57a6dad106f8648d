//! Starts `coterie topology lsp` for Zed; everything else the server does.

use zed_extension_api::{self as zed, LanguageServerId, Result};

struct Coterie;

impl zed::Extension for Coterie {
    fn new() -> Self {
        Self
    }

    fn language_server_command(&mut self, _: &LanguageServerId, worktree: &zed::Worktree) -> Result<zed::Command> {
        let command = worktree
            .which("coterie")
            .ok_or("coterie is not on the PATH: pip install 'coterie[lsp]'")?;
        Ok(zed::Command {
            command,
            args: vec!["topology".into(), "lsp".into()],
            env: worktree.shell_env(),
        })
    }
}

zed::register_extension!(Coterie);
