-- For Neovim 0.11 or newer. Put this file into ~/.config/nvim/plugin/.

vim.filetype.add({ extension = { at = "agentopology" } })

vim.lsp.config("coterie", {
  cmd = { "coterie", "topology", "lsp" },
  filetypes = { "agentopology" },
  root_markers = { ".coterie", ".git" },
})
vim.lsp.enable("coterie")

vim.api.nvim_create_autocmd("FileType", {
  pattern = "agentopology",
  callback = function(event)
    vim.bo[event.buf].commentstring = "# %s"
    vim.bo[event.buf].shiftwidth = 2
    vim.bo[event.buf].expandtab = true
    vim.opt_local.iskeyword:append("-")
  end,
})
