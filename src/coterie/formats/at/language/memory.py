"""The block `memory`: folders, stores, and how they are searched."""

from coterie.formats.at.language.spec import (
    Block,
    Count,
    Entries,
    Field,
    Flag,
    Inner,
    Number,
    OneOf,
    Text,
    Values,
    Word,
    Words,
)

DOMAINS = Block(
    "domains",
    "Knowledge that the team shares.",
    (
        Field("path", Text(), "Its folder."),
        Field("routing", Text(), "The file that says what lies where."),
        Field("index", Text(), "The file that lists it."),
    ),
)
REFERENCES = Block(
    "references",
    "Documents that do not change.",
    (Field("path", Text(), "Their folder."), Field("blueprints", Words(), "Their names.")),
)
EXTERNAL_DOCS = Block(
    "external-docs",
    "Documents that are loaded when they are needed.",
    (
        Field("path", Text(), "Their folder."),
        Field("files", Words(), "Their names."),
        Field("load-when", Text(), "The file that says when."),
    ),
)
METRICS = Block(
    "metrics",
    "A log of what was done.",
    (Field("path", Text(), "Its file."), Field("mode", OneOf(("append-only",), open=True), "How it is written.")),
)
WORKSPACE = Block(
    "workspace",
    "The folder of one run.",
    (
        Field("path", Text(), "Where it is."),
        Field("protocol", Text(), "The file that says how it is used."),
        Field("structure", Words(), "The folders in it."),
    ),
)

EMBEDDING = Block(
    "embedding",
    "What makes vectors of texts.",
    (
        Field("provider", Word(), "Who serves it."),
        Field("model", Text(), "The model's name."),
        Field("dimensions", Count(low=1), "The length of a vector."),
        Field("endpoint", Text(), "Its address."),
    ),
)
INDEX = Block(
    "index",
    "Where vectors lie.",
    (Field("collection", Text(), "Their collection."), Field("metric", Word(), "How they are compared.")),
)
INGESTION = Block(
    "ingestion",
    "What is read into the store.",
    (
        Field("sources", Words(), "Folders and files."),
        Field("chunking", Word(), "How they are cut."),
        Field("chunk-size", Count(low=1), "The length of a piece."),
        Field("overlap", Count(), "How far pieces overlap."),
    ),
)
SEARCH = Block(
    "search",
    "How the store is searched.",
    (
        Field("strategy", Word(), "By words, by vectors, or both."),
        Field("rerank", Flag(), "Whether what was found is ranked again.", "false"),
        Field("top-k", Count(low=1), "How much is found."),
    ),
)
LIFECYCLE = Block(
    "lifecycle",
    "How long the store keeps what it holds.",
    (
        Field("retention", Text(words="a duration"), "How long."),
        Field("decay-half-life", Text(words="a duration"), "When a memory counts half."),
        Field("consolidation", Number(low=0, high=1), "How alike memories are that become one."),
        Field("contradiction", Word(), "What becomes of memories that contradict each other."),
        Field("audit-log", Flag(), "Whether every change is written down.", "false"),
    ),
)

# fmt: off
STORE_BACKENDS = (
    "lancedb", "sqlite-vec", "chroma", "kuzu", "falkordb", "mongodb", "pinecone", "qdrant", "pgvector", "neo4j",
    "sqlite", "duckdb",
)
STORE_TYPES = ("semantic", "episodic", "procedural", "entity", "graph", "user", "session", "temporal")
# fmt: on

STORE = Block(
    "store",
    "A place where agents remember.",
    (
        Field("type", OneOf(STORE_TYPES), "What sort of memory it is."),
        Field("description", Text(), "What it holds."),
        Field("scope", OneOf(("agent", "user", "session", "org", "global"), open=True), "Who shares it."),
        Field("isolation", OneOf(("strict", "soft", "none")), "How strictly it is kept apart."),
        Field("backend", OneOf(STORE_BACKENDS), "What keeps it."),
        Field("path", Text(), "Where its files lie."),
        Field("connection", Text(), "The address of its server."),
        Field("extraction", OneOf(("llm", "regex", "hybrid")), "How facts are found in texts."),
        Field("embedding", Inner(EMBEDDING), EMBEDDING.about),
        Field("index", Inner(INDEX), INDEX.about),
        Field("ingestion", Inner(INGESTION), INGESTION.about),
        Field("search", Inner(SEARCH), SEARCH.about),
        Field("lifecycle", Inner(LIFECYCLE), LIFECYCLE.about),
        Field("backend-config", Values(), "What its backend alone knows."),
    ),
)
RETRIEVAL = Block(
    "retrieval",
    "How agents find what is remembered.",
    (
        Field("sources", Words(names=True), "The stores that are searched."),
        Field("budget", Count(low=1), "How many tokens it may find."),
        Field("paths", Words(), "The ways it searches."),
        Field("rerank", Flag(), "Whether what was found is ranked again.", "false"),
        Field("diversity", Flag(), "Whether what is alike is found once.", "false"),
        Field("cache-hit-threshold", Number(low=0, high=1), "How alike a question is that was asked before."),
        Field(
            "cache-hit-action",
            OneOf(("short-circuit", "augment", "pass-through")),
            "What an earlier answer is good for.",
        ),
        Field("scoring", Values(), "What counts how much."),
    ),
)

MEMORY = Block(
    "memory",
    "What the team remembers.",
    (
        Field("domains", Inner(DOMAINS, short="path"), DOMAINS.about),
        Field("references", Inner(REFERENCES, short="path"), REFERENCES.about),
        Field("external-docs", Inner(EXTERNAL_DOCS, short="path"), EXTERNAL_DOCS.about),
        Field("metrics", Inner(METRICS, short="path"), METRICS.about),
        Field("workspace", Inner(WORKSPACE, short="path"), WORKSPACE.about),
    ),
    (Entries("store", STORE), Entries("retrieval", RETRIEVAL)),
    example="memory { store notes { type: semantic  backend: sqlite-vec } }",
)
