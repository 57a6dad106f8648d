// Starts `coterie topology lsp` and connects VS Code with it; everything else the server does.

const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

async function activate() {
  const [command, ...first] = workspace.getConfiguration("coterie").get("command");
  const server = { command, args: [...first, "topology", "lsp"] };
  client = new LanguageClient("coterie", "Coterie", server, { documentSelector: [{ language: "agentopology" }] });
  await client.start();
}

async function deactivate() {
  await client?.stop();
}

module.exports = { activate, deactivate };
