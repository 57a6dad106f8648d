"""The language server: holds the open documents and converts answers of this package to the protocol.

It has one thread and one event loop. Requests are answered from the current document; diagnostics are computed after a
short pause in typing.

The module needs the extra `lsp`, so coterie imports it only to serve.
"""

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from coterie.base.diagnostics import Severity
from coterie.errors import UsageError
from coterie.interfaces.lsp import completion, diagnostics, hover, layout, locations, outline, rename
from coterie.interfaces.lsp.document import Document
from coterie.interfaces.lsp.positions import LineIndex

QUIET = 0.05
"""Seconds without a change before diagnostics are computed."""

_SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.NOTE: types.DiagnosticSeverity.Information,
}
_SYMBOLS = {
    "topology": types.SymbolKind.Module,
    "fragment": types.SymbolKind.Module,
    "agent": types.SymbolKind.Class,
    "orchestrator": types.SymbolKind.Class,
    "action": types.SymbolKind.Function,
    "gate": types.SymbolKind.Event,
    "human": types.SymbolKind.Interface,
    "group": types.SymbolKind.Package,
    "flow": types.SymbolKind.Operator,
    "import": types.SymbolKind.File,
    "include": types.SymbolKind.File,
    "output": types.SymbolKind.Field,
}


def serve(version: str) -> int:
    """Serve one editor over standard input and output; the exit status is 0 after a proper shutdown.

    Only the protocol is written to standard output; other output goes to standard error.
    """
    server = _Server(version)
    logging.getLogger("pygls.protocol.json_rpc").addFilter(_is_no_refusal)
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as out, contextlib.redirect_stdout(sys.stderr):
        server.start_io(stdout=out)
    return 0 if server.was_shut_down else 1


class _Server(LanguageServer):
    """The server and its open documents."""

    def __init__(self, version: str) -> None:
        super().__init__("coterie", version, types.TextDocumentSyncKind.Incremental)
        self.was_shut_down = False
        self.documents: dict[str, Document] = {}
        self._waiting: dict[str, asyncio.TimerHandle] = {}
        for name, answer, options in _features(self):
            self.feature(name, options)(partial(answer))  # pygls sets attributes on it, which methods do not accept

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Log an error, unless it is a refusal, which was sent as the answer."""
        if not isinstance(error, JsonRpcException):
            super().report_server_error(error, source)

    def opened(self, params: types.DidOpenTextDocumentParams) -> None:
        item = params.text_document
        path = to_fs_path(item.uri) if item.uri.startswith("file:") else None
        encoding = types.PositionEncodingKind(self.workspace.position_encoding or types.PositionEncodingKind.Utf16)
        text = LineIndex(item.text, encoding.value)
        self.documents[item.uri] = Document(text, Path(path) if path else None, item.version)
        self._schedule(item.uri, after=0)

    def changed(self, params: types.DidChangeTextDocumentParams) -> None:
        uri = params.text_document.uri
        document = self.documents.get(uri)
        if document is not None:
            self.documents[uri] = document.changed(params.content_changes, params.text_document.version)
            self._schedule(uri, after=QUIET)

    def saved(self, params: types.DidSaveTextDocumentParams) -> None:
        """Read all documents again, since they may include the saved file."""
        for uri, document in self.documents.items():
            self.documents[uri] = document.changed([], document.version)
            self._schedule(uri, after=QUIET)

    def closed(self, params: types.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        self.documents.pop(uri, None)
        if (waiting := self._waiting.pop(uri, None)) is not None:
            waiting.cancel()
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    def shut_down(self, _: None) -> None:
        self.was_shut_down = True

    def _schedule(self, uri: str, after: float) -> None:
        """Compute diagnostics *after* this many seconds without a change."""
        if (waiting := self._waiting.pop(uri, None)) is not None:
            waiting.cancel()
        self._waiting[uri] = asyncio.get_running_loop().call_later(after, self._publish, uri)

    def _publish(self, uri: str) -> None:
        self._waiting.pop(uri, None)
        document = self.documents[uri]
        found = [_diagnostic(document, one) for one in diagnostics.findings(document)]
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found, document.version))

    def completion(self, params: types.CompletionParams) -> list[types.CompletionItem]:
        document, offset = self._at(params)
        found = completion.complete(document, offset)
        return [_completion(document, at, one, self._supports_snippets()) for at, one in enumerate(found)]

    def hover(self, params: types.HoverParams) -> types.Hover | None:
        document, offset = self._at(params)
        note = hover.hover(document, offset)
        if note is None:
            return None
        content = types.MarkupContent(types.MarkupKind.Markdown, note.text)
        return types.Hover(content, document.text.range(note.offset, note.length))

    def definition(self, params: types.DefinitionParams) -> list[types.Location]:
        document, offset = self._at(params)
        return [_location(document, params, place) for place in locations.definition(document, offset)]

    def references(self, params: types.ReferenceParams) -> list[types.Location]:
        document, offset = self._at(params)
        found = locations.references(document, offset, declarations=params.context.include_declaration)
        return [_location(document, params, place) for place in found]

    def highlight(self, params: types.DocumentHighlightParams) -> list[types.DocumentHighlight]:
        document, offset = self._at(params)
        found = locations.references(document, offset)
        return [types.DocumentHighlight(document.text.range(place.offset, place.length)) for place in found]

    def prepare_rename(self, params: types.PrepareRenameParams) -> types.PrepareRenamePlaceholder:
        document, offset = self._at(params)
        with _refusing():
            one = rename.renamable(document, offset)
        return types.PrepareRenamePlaceholder(document.text.range(one.offset, one.length), one.symbol.name)

    def rename(self, params: types.RenameParams) -> types.WorkspaceEdit:
        document, offset = self._at(params)
        with _refusing():
            edits = rename.rename(document, offset, params.new_name)
        return types.WorkspaceEdit({params.text_document.uri: _edits(document, edits)})

    def symbols(self, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        document = self._document(params)
        topology = document.source.topology
        if topology is not None and topology.system is not None:
            return [_symbol(document, outline.outline_system(topology.system.root))]
        return [_symbol(document, part) for part in outline.outline(document.tree)]

    def folds(self, params: types.FoldingRangeParams) -> list[types.FoldingRange]:
        document = self._document(params)
        lines = [[document.text.position(at).line for at in fold] for fold in outline.folds(document.tree)]
        return [types.FoldingRange(first, last - 1) for first, last in lines if last - 1 > first]

    def formatting(self, params: types.DocumentFormattingParams) -> list[types.TextEdit]:
        document = self._document(params)
        return _edits(document, layout.format_document(document))

    def actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        document = self._document(params)
        start, end = (document.text.offset(position) for position in (params.range.start, params.range.end))
        found = diagnostics.fixable(document, start, end - start)
        return [_action(document, params.text_document.uri, one) for one in found]

    def _document(self, params: Any) -> Document:
        """The document that *params* are about.

        Raises:
            JsonRpcException: If the editor did not open it.
        """
        uri = params.text_document.uri
        if uri not in self.documents:
            raise JsonRpcException(f"{uri} is not open", types.LSPErrorCodes.RequestFailed)
        return self.documents[uri]

    def _at(self, params: Any) -> tuple[Document, int]:
        document = self._document(params)
        return document, document.text.offset(params.position)

    def _supports_snippets(self) -> bool:
        of_text = self.client_capabilities.text_document
        completion = of_text.completion if of_text is not None else None
        item = completion.completion_item if completion is not None else None
        return bool(item is not None and item.snippet_support)


def _features(server: _Server) -> Sequence[tuple[str, Any, Any]]:
    """Requests and notifications, their handlers and options."""
    triggers = types.CompletionOptions(trigger_characters=[".", "[", ">", ":", '"', " "])
    fixes = types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix])
    return [
        (types.TEXT_DOCUMENT_DID_OPEN, server.opened, None),
        (types.TEXT_DOCUMENT_DID_CHANGE, server.changed, None),
        (types.TEXT_DOCUMENT_DID_SAVE, server.saved, None),
        (types.TEXT_DOCUMENT_DID_CLOSE, server.closed, None),
        (types.SHUTDOWN, server.shut_down, None),
        (types.TEXT_DOCUMENT_COMPLETION, server.completion, triggers),
        (types.TEXT_DOCUMENT_HOVER, server.hover, None),
        (types.TEXT_DOCUMENT_DEFINITION, server.definition, None),
        (types.TEXT_DOCUMENT_REFERENCES, server.references, None),
        (types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT, server.highlight, None),
        (types.TEXT_DOCUMENT_PREPARE_RENAME, server.prepare_rename, None),
        (types.TEXT_DOCUMENT_RENAME, server.rename, types.RenameOptions(prepare_provider=True)),
        (types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, server.symbols, None),
        (types.TEXT_DOCUMENT_FOLDING_RANGE, server.folds, None),
        (types.TEXT_DOCUMENT_FORMATTING, server.formatting, None),
        (types.TEXT_DOCUMENT_CODE_ACTION, server.actions, fixes),
    ]


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """Send a `UsageError` to the editor as the reason of a refusal."""
    try:
        yield
    except UsageError as refused:
        raise JsonRpcException(str(refused), types.LSPErrorCodes.RequestFailed) from None


def _is_no_refusal(record: logging.LogRecord) -> bool:
    """Whether *record* should be logged: not if it is about a refusal, which the editor shows to the user."""
    return record.exc_info is None or not isinstance(record.exc_info[1], JsonRpcException)


def _location(document: Document, params: Any, place: locations.FileRange) -> types.Location:
    if place.path is None:
        return types.Location(params.text_document.uri, document.text.range(place.offset, place.length))
    there = Document(LineIndex(place.text, document.text.encoding))
    uri = from_fs_path(str(place.path.resolve())) or params.text_document.uri
    return types.Location(uri, there.text.range(place.offset, place.length))


def _edits(document: Document, edits: Sequence[rename.Edit]) -> list[types.TextEdit]:
    return [types.TextEdit(document.text.range(edit.offset, edit.length), edit.text) for edit in edits]


def _diagnostic(document: Document, one: diagnostics.DocumentDiagnostic) -> types.Diagnostic:
    return types.Diagnostic(
        range=document.text.range(one.offset, one.length),
        message=one.message,
        severity=_SEVERITIES[one.diagnostic.severity],
        code=one.diagnostic.code,
        source="coterie",
    )


def _action(document: Document, uri: str, one: diagnostics.DocumentDiagnostic) -> types.CodeAction:
    fix = one.fix
    assert fix is not None  # others are not offered
    edit = types.TextEdit(document.text.range(fix.span.offset, fix.span.length), fix.text)
    return types.CodeAction(
        title=fix.title[:1].upper() + fix.title[1:],
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[_diagnostic(document, one)],
        is_preferred=True,
        edit=types.WorkspaceEdit({uri: [edit]}),
    )


def _completion(document: Document, at: int, one: completion.Proposal, snippets: bool) -> types.CompletionItem:
    written = one.snippet if snippets and one.snippet else one.plain
    is_snippet = snippets and bool(one.snippet)
    return types.CompletionItem(
        label=one.label,
        kind=one.sort,
        detail=one.detail or None,
        documentation=types.MarkupContent(types.MarkupKind.Markdown, one.about) if one.about else None,
        sort_text=f"{at:04}",
        insert_text_format=types.InsertTextFormat.Snippet if is_snippet else types.InsertTextFormat.PlainText,
        text_edit=types.TextEdit(document.text.range(one.offset, one.length), written),
    )


def _symbol(document: Document, part: outline.OutlineItem) -> types.DocumentSymbol:
    return types.DocumentSymbol(
        name=part.name,
        detail=" ".join(word for word in (part.kind if part.kind != part.name else "", part.detail) if word),
        kind=_SYMBOLS.get(part.kind, types.SymbolKind.Object),
        range=document.text.range(part.offset, part.length),
        selection_range=document.text.range(part.name_offset, part.name_length),
        children=[_symbol(document, child) for child in part.children],
    )
