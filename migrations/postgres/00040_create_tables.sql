-- +goose Up
-- The first schema. Each statement may be repeated, because the one for MySQL has to be.

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS versions (
    name    TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    version BIGINT           NOT NULL
);
-- +goose StatementEnd
INSERT INTO versions (name, version) VALUES ('event_types', 0), ('api_keys', 0), ('user_tokens', 0), ('schedules', 0), ('broadcasts', 0), ('facts', 0), ('webhooks', 0) ON CONFLICT (name) DO NOTHING;

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS event_types (
    type       TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    revision   BIGINT           NOT NULL,
    definition TEXT COLLATE "C" NOT NULL,
    deleted    BOOLEAN          NOT NULL DEFAULT FALSE,
    created_at BIGINT           NOT NULL,
    updated_at BIGINT           NOT NULL
);
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS user_settings (
    user_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    version BIGINT           NOT NULL
);
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS devices (
    token         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    user_id       TEXT COLLATE "C" NOT NULL,
    platform      TEXT COLLATE "C" NOT NULL,
    topic         TEXT COLLATE "C" NOT NULL,
    environment   TEXT COLLATE "C" NOT NULL,
    state         TEXT COLLATE "C" NOT NULL,
    reason        TEXT COLLATE "C" NOT NULL DEFAULT '',
    registered_at BIGINT           NOT NULL,
    dropped_at    BIGINT           NULL,
    locale        TEXT COLLATE "C" NOT NULL DEFAULT '',
    target        TEXT COLLATE "C" NOT NULL DEFAULT '',
    object        TEXT COLLATE "C" NOT NULL DEFAULT '',
    attributes_type TEXT COLLATE "C" NOT NULL DEFAULT '',
    ends_at       BIGINT           NULL
);
-- +goose StatementEnd
CREATE INDEX IF NOT EXISTS devices_by_user ON devices (user_id, token);
CREATE INDEX IF NOT EXISTS devices_by_object ON devices (object, state, user_id);
CREATE INDEX IF NOT EXISTS devices_by_end ON devices (ends_at) WHERE ends_at IS NOT NULL;

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS opt_outs (
    user_id    TEXT COLLATE "C" NOT NULL,
    type       TEXT COLLATE "C" NOT NULL,
    created_at BIGINT           NOT NULL,
    PRIMARY KEY (user_id, type)
);
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS mutes (
    user_id    TEXT COLLATE "C" NOT NULL,
    object     TEXT COLLATE "C" NOT NULL,
    until      BIGINT           NULL,
    created_at BIGINT           NOT NULL,
    PRIMARY KEY (user_id, object)
);
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS contacts (
    owner        TEXT COLLATE "C" NOT NULL,
    contact      TEXT COLLATE "C" NOT NULL,
    relationship TEXT COLLATE "C" NOT NULL,
    version      BIGINT           NOT NULL,
    deleted      BOOLEAN          NOT NULL DEFAULT FALSE,
    created_at   BIGINT           NOT NULL,
    updated_at   BIGINT           NOT NULL,
    PRIMARY KEY (owner, contact)
);
-- +goose StatementEnd
CREATE INDEX IF NOT EXISTS contacts_by_contact ON contacts (contact, deleted, owner);
CREATE INDEX IF NOT EXISTS contacts_deleted ON contacts (updated_at) WHERE deleted = TRUE;

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS outbox (
    id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    kind       TEXT COLLATE "C" NOT NULL,
    subject    TEXT COLLATE "C" NOT NULL,
    payload    TEXT COLLATE "C" NOT NULL,
    created_at BIGINT           NOT NULL
);
-- +goose StatementEnd
CREATE INDEX IF NOT EXISTS outbox_by_age ON outbox (kind, created_at, id);
CREATE INDEX IF NOT EXISTS outbox_by_subject ON outbox (kind, subject);

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS api_keys (
    id           TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    name         TEXT COLLATE "C" NOT NULL,
    scopes       TEXT COLLATE "C" NOT NULL,
    secret_hash  TEXT COLLATE "C" NOT NULL,
    created_at   BIGINT           NOT NULL,
    last_used_at BIGINT           NULL,
    revoked_at   BIGINT           NULL,
    expires_at   BIGINT           NULL
);
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS uploads (
    id          TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    owner       TEXT COLLATE "C" NOT NULL,
    visibility  TEXT COLLATE "C" NOT NULL,
    deleted     BOOLEAN          NOT NULL DEFAULT FALSE,
    uploaded_at BIGINT           NOT NULL,
    created_at  BIGINT           NOT NULL,
    updated_at  BIGINT           NOT NULL
);
-- +goose StatementEnd
CREATE INDEX IF NOT EXISTS uploads_newest ON uploads (owner, visibility, deleted, uploaded_at, id);
CREATE INDEX IF NOT EXISTS uploads_deleted ON uploads (updated_at) WHERE deleted = TRUE;

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS idempotency (
    id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    body_hash  TEXT COLLATE "C" NOT NULL,
    answer     TEXT COLLATE "C" NOT NULL,
    created_at BIGINT           NOT NULL
);
-- +goose StatementEnd
CREATE INDEX IF NOT EXISTS idempotency_by_age ON idempotency (created_at);

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS sales (
    id             TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    version        BIGINT           NOT NULL,
    item_totals    TEXT COLLATE "C" NOT NULL,
    starts_at      BIGINT           NOT NULL,
    ends_at        BIGINT           NOT NULL,
    per_user_limit BIGINT           NOT NULL,
    hold_ms        BIGINT           NOT NULL,
    idle_ms        BIGINT           NOT NULL,
    partitions     BIGINT           NOT NULL,
    created_at     BIGINT           NOT NULL,
    updated_at     BIGINT           NOT NULL,
    loading        TEXT COLLATE "C" NOT NULL DEFAULT '',
    max_hold_ms    BIGINT           NOT NULL DEFAULT 0
);
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS orders (
    reservation TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    sale        TEXT COLLATE "C" NOT NULL,
    user_id     TEXT COLLATE "C" NOT NULL,
    order_lines TEXT COLLATE "C" NOT NULL,
    created_at  BIGINT           NOT NULL
);
-- +goose StatementEnd
CREATE INDEX IF NOT EXISTS orders_by_age ON orders (sale, created_at, reservation);

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS token_keys (
    id          TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    private_key TEXT COLLATE "C" NOT NULL,
    created_at  BIGINT           NOT NULL
);
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS token_revocations (
    user_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    up_to   BIGINT           NOT NULL,
    version BIGINT           NOT NULL
);
-- +goose StatementEnd
CREATE INDEX IF NOT EXISTS token_revocations_by_version ON token_revocations (version);

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS restocks (
    sale       TEXT COLLATE "C" NOT NULL,
    name       TEXT COLLATE "C" NOT NULL,
    version    BIGINT           NOT NULL,
    answer     TEXT COLLATE "C" NOT NULL,
    expires_at BIGINT           NOT NULL,
    PRIMARY KEY (sale, name)
);
-- +goose StatementEnd
CREATE INDEX IF NOT EXISTS restocks_by_age ON restocks (expires_at);

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS topic_members (
    topic     TEXT COLLATE "C" NOT NULL,
    user_id   TEXT COLLATE "C" NOT NULL,
    joined_at BIGINT           NOT NULL,
    PRIMARY KEY (topic, user_id)
);
-- +goose StatementEnd
CREATE INDEX IF NOT EXISTS topic_members_by_user ON topic_members (user_id, topic);

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS open_topics (
    topic      TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at BIGINT           NOT NULL
);
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS deleted_sales (
    id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    deletion   TEXT COLLATE "C" NOT NULL,
    used       BOOLEAN          NOT NULL,
    deleted_at BIGINT           NOT NULL
);
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS operations (
    id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    action     TEXT COLLATE "C" NOT NULL,
    subject    TEXT COLLATE "C" NOT NULL,
    turn       TEXT COLLATE "C" NULL,
    since      BIGINT           NOT NULL,
    removed    TEXT COLLATE "C" NOT NULL,
    kept       TEXT COLLATE "C" NOT NULL,
    created_at BIGINT           NOT NULL,
    settled_at BIGINT           NULL,
    done_at    BIGINT           NULL
);
-- +goose StatementEnd
CREATE UNIQUE INDEX IF NOT EXISTS operations_by_turn ON operations (turn);
CREATE INDEX IF NOT EXISTS operations_by_age ON operations (done_at);

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS schedules (
    id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    definition TEXT COLLATE "C" NOT NULL,
    payload    TEXT COLLATE "C" NOT NULL,
    next_at    BIGINT           NOT NULL,
    last_at    BIGINT           NULL,
    created_at BIGINT           NOT NULL,
    updated_at BIGINT           NOT NULL
);
-- +goose StatementEnd
CREATE INDEX IF NOT EXISTS schedules_by_time ON schedules (next_at);

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS broadcasts (
    object      TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    topic       TEXT COLLATE "C" NOT NULL,
    environment TEXT COLLATE "C" NOT NULL,
    keep        TEXT COLLATE "C" NOT NULL,
    channel     TEXT COLLATE "C" NOT NULL DEFAULT '',
    state       TEXT COLLATE "C" NOT NULL,
    ends_at     BIGINT           NOT NULL,
    asked_at    BIGINT           NOT NULL,
    created_at  BIGINT           NOT NULL,
    updated_at  BIGINT           NOT NULL
);
-- +goose StatementEnd
CREATE INDEX IF NOT EXISTS broadcasts_by_app ON broadcasts (topic, environment, object);

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS fact_types (
    type  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    since BIGINT           NOT NULL
);
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS webhooks (
    id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    version    BIGINT           NOT NULL,
    definition TEXT COLLATE "C" NOT NULL,
    series     TEXT COLLATE "C" NOT NULL,
    gone       BOOLEAN          NOT NULL,
    secret     TEXT COLLATE "C" NOT NULL,
    secret_at  BIGINT           NOT NULL,
    old_secrets TEXT COLLATE "C" NOT NULL,
    created_at BIGINT           NOT NULL,
    updated_at BIGINT           NOT NULL
);
-- +goose StatementEnd
