-- +goose Up
-- The first schema. Each statement may be repeated, because the one for MySQL has to be.

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS versions (
    name    TEXT    NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL
) WITHOUT ROWID;
-- +goose StatementEnd
INSERT OR IGNORE INTO versions (name, version) VALUES ('event_types', 0), ('api_keys', 0), ('user_tokens', 0), ('schedules', 0), ('broadcasts', 0), ('facts', 0), ('webhooks', 0);

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS event_types (
    type       TEXT    NOT NULL PRIMARY KEY,
    revision   INTEGER NOT NULL,
    definition TEXT    NOT NULL,
    deleted    BOOLEAN NOT NULL DEFAULT FALSE,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) WITHOUT ROWID;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS user_settings (
    user_id TEXT    NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL
) WITHOUT ROWID;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS devices (
    token         TEXT    NOT NULL PRIMARY KEY,
    user_id       TEXT    NOT NULL,
    platform      TEXT    NOT NULL,
    topic         TEXT    NOT NULL,
    environment   TEXT    NOT NULL,
    state         TEXT    NOT NULL,
    reason        TEXT    NOT NULL DEFAULT '',
    registered_at INTEGER NOT NULL,
    dropped_at    INTEGER NULL,
    locale        TEXT    NOT NULL DEFAULT '',
    target        TEXT    NOT NULL DEFAULT '',
    object        TEXT    NOT NULL DEFAULT '',
    attributes_type TEXT  NOT NULL DEFAULT '',
    ends_at       INTEGER NULL
) WITHOUT ROWID;
-- +goose StatementEnd
CREATE INDEX IF NOT EXISTS devices_by_user ON devices (user_id, token);
CREATE INDEX IF NOT EXISTS devices_by_object ON devices (object, state, user_id);
CREATE INDEX IF NOT EXISTS devices_by_end ON devices (ends_at) WHERE ends_at IS NOT NULL;

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS opt_outs (
    user_id    TEXT    NOT NULL,
    type       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, type)
) WITHOUT ROWID;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS mutes (
    user_id    TEXT    NOT NULL,
    object     TEXT    NOT NULL,
    until      INTEGER NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, object)
) WITHOUT ROWID;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS contacts (
    owner        TEXT    NOT NULL,
    contact      TEXT    NOT NULL,
    relationship TEXT    NOT NULL,
    version      INTEGER NOT NULL,
    deleted      BOOLEAN NOT NULL DEFAULT FALSE,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    PRIMARY KEY (owner, contact)
) WITHOUT ROWID;
-- +goose StatementEnd
CREATE INDEX IF NOT EXISTS contacts_by_contact ON contacts (contact, deleted, owner);
CREATE INDEX IF NOT EXISTS contacts_deleted ON contacts (updated_at) WHERE deleted = TRUE;

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS outbox (
    id         TEXT    NOT NULL PRIMARY KEY,
    kind       TEXT    NOT NULL,
    subject    TEXT    NOT NULL,
    payload    TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;
-- +goose StatementEnd
CREATE INDEX IF NOT EXISTS outbox_by_age ON outbox (kind, created_at, id);
CREATE INDEX IF NOT EXISTS outbox_by_subject ON outbox (kind, subject);

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS api_keys (
    id           TEXT    NOT NULL PRIMARY KEY,
    name         TEXT    NOT NULL,
    scopes       TEXT    NOT NULL,
    secret_hash  TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    last_used_at INTEGER NULL,
    revoked_at   INTEGER NULL,
    expires_at   INTEGER NULL
) WITHOUT ROWID;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS uploads (
    id          TEXT    NOT NULL PRIMARY KEY,
    owner       TEXT    NOT NULL,
    visibility  TEXT    NOT NULL,
    deleted     BOOLEAN NOT NULL DEFAULT FALSE,
    uploaded_at INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL
) WITHOUT ROWID;
-- +goose StatementEnd
CREATE INDEX IF NOT EXISTS uploads_newest ON uploads (owner, visibility, deleted, uploaded_at, id);
CREATE INDEX IF NOT EXISTS uploads_deleted ON uploads (updated_at) WHERE deleted = TRUE;

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS idempotency (
    id         TEXT    NOT NULL PRIMARY KEY,
    body_hash  TEXT    NOT NULL,
    answer     TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;
-- +goose StatementEnd
CREATE INDEX IF NOT EXISTS idempotency_by_age ON idempotency (created_at);

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS sales (
    id             TEXT    NOT NULL PRIMARY KEY,
    version        INTEGER NOT NULL,
    item_totals    TEXT    NOT NULL,
    starts_at      INTEGER NOT NULL,
    ends_at        INTEGER NOT NULL,
    per_user_limit INTEGER NOT NULL,
    hold_ms        INTEGER NOT NULL,
    idle_ms        INTEGER NOT NULL,
    partitions     INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    loading        TEXT    NOT NULL DEFAULT '',
    max_hold_ms    INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS orders (
    reservation TEXT    NOT NULL PRIMARY KEY,
    sale        TEXT    NOT NULL,
    user_id     TEXT    NOT NULL,
    order_lines TEXT    NOT NULL,
    created_at  INTEGER NOT NULL
) WITHOUT ROWID;
-- +goose StatementEnd
CREATE INDEX IF NOT EXISTS orders_by_age ON orders (sale, created_at, reservation);

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS token_keys (
    id          TEXT    NOT NULL PRIMARY KEY,
    private_key TEXT    NOT NULL,
    created_at  INTEGER NOT NULL
) WITHOUT ROWID;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS token_revocations (
    user_id TEXT    NOT NULL PRIMARY KEY,
    up_to   INTEGER NOT NULL,
    version INTEGER NOT NULL
) WITHOUT ROWID;
-- +goose StatementEnd
CREATE INDEX IF NOT EXISTS token_revocations_by_version ON token_revocations (version);

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS restocks (
    sale       TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    version    INTEGER NOT NULL,
    answer     TEXT    NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (sale, name)
) WITHOUT ROWID;
-- +goose StatementEnd
CREATE INDEX IF NOT EXISTS restocks_by_age ON restocks (expires_at);

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS topic_members (
    topic     TEXT    NOT NULL,
    user_id   TEXT    NOT NULL,
    joined_at INTEGER NOT NULL,
    PRIMARY KEY (topic, user_id)
) WITHOUT ROWID;
-- +goose StatementEnd
CREATE INDEX IF NOT EXISTS topic_members_by_user ON topic_members (user_id, topic);

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS open_topics (
    topic      TEXT    NOT NULL PRIMARY KEY,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS deleted_sales (
    id         TEXT    NOT NULL PRIMARY KEY,
    deletion   TEXT    NOT NULL,
    used       BOOLEAN NOT NULL,
    deleted_at INTEGER NOT NULL
) WITHOUT ROWID;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS operations (
    id         TEXT    NOT NULL PRIMARY KEY,
    action     TEXT    NOT NULL,
    subject    TEXT    NOT NULL,
    turn       TEXT    NULL,
    since      INTEGER NOT NULL,
    removed    TEXT    NOT NULL,
    kept       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    settled_at INTEGER NULL,
    done_at    INTEGER NULL
) WITHOUT ROWID;
-- +goose StatementEnd
CREATE UNIQUE INDEX IF NOT EXISTS operations_by_turn ON operations (turn);
CREATE INDEX IF NOT EXISTS operations_by_age ON operations (done_at);

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS schedules (
    id         TEXT    NOT NULL PRIMARY KEY,
    definition TEXT    NOT NULL,
    payload    TEXT    NOT NULL,
    next_at    INTEGER NOT NULL,
    last_at    INTEGER NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) WITHOUT ROWID;
-- +goose StatementEnd
CREATE INDEX IF NOT EXISTS schedules_by_time ON schedules (next_at);

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS broadcasts (
    object      TEXT    NOT NULL PRIMARY KEY,
    topic       TEXT    NOT NULL,
    environment TEXT    NOT NULL,
    keep        TEXT    NOT NULL,
    channel     TEXT    NOT NULL DEFAULT '',
    state       TEXT    NOT NULL,
    ends_at     INTEGER NOT NULL,
    asked_at    INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL
) WITHOUT ROWID;
-- +goose StatementEnd
CREATE INDEX IF NOT EXISTS broadcasts_by_app ON broadcasts (topic, environment, object);

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS fact_types (
    type  TEXT    NOT NULL PRIMARY KEY,
    since INTEGER NOT NULL
) WITHOUT ROWID;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS webhooks (
    id         TEXT    NOT NULL PRIMARY KEY,
    version    INTEGER NOT NULL,
    definition TEXT    NOT NULL,
    series     TEXT    NOT NULL,
    gone       BOOLEAN NOT NULL,
    secret     TEXT    NOT NULL,
    secret_at  INTEGER NOT NULL,
    old_secrets TEXT   NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) WITHOUT ROWID;
-- +goose StatementEnd
