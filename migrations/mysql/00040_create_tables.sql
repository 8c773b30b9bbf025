-- +goose Up
-- The first schema. Each statement may be repeated, because MySQL cannot undo half of a step.

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS versions (
    name    VARCHAR(64) NOT NULL PRIMARY KEY,
    version BIGINT      NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd
INSERT IGNORE INTO versions (name, version) VALUES ('event_types', 0), ('api_keys', 0), ('user_tokens', 0), ('schedules', 0), ('broadcasts', 0), ('facts', 0), ('webhooks', 0);

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS event_types (
    type       VARCHAR(128) NOT NULL PRIMARY KEY,
    revision   BIGINT       NOT NULL,
    definition MEDIUMTEXT   CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    deleted    BOOLEAN      NOT NULL DEFAULT FALSE,
    created_at BIGINT       NOT NULL,
    updated_at BIGINT       NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS user_settings (
    user_id VARCHAR(128) NOT NULL PRIMARY KEY,
    version BIGINT       NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS devices (
    token         VARCHAR(512) NOT NULL PRIMARY KEY,
    user_id       VARCHAR(128) NOT NULL,
    platform      VARCHAR(16)  NOT NULL,
    topic         VARCHAR(128) NOT NULL,
    environment   VARCHAR(16)  NOT NULL,
    state         VARCHAR(16)  NOT NULL,
    reason        VARCHAR(128) NOT NULL DEFAULT '',
    registered_at BIGINT       NOT NULL,
    dropped_at    BIGINT       NULL,
    locale        VARCHAR(35)  NOT NULL DEFAULT '',
    target        VARCHAR(2304) NOT NULL DEFAULT '',
    object        VARCHAR(133) NOT NULL DEFAULT '',
    attributes_type VARCHAR(128) NOT NULL DEFAULT '',
    ends_at       BIGINT       NULL,
    KEY devices_by_user (user_id, token),
    KEY devices_by_object (object, state, user_id),
    KEY devices_by_end (ends_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS opt_outs (
    user_id    VARCHAR(128) NOT NULL,
    type       VARCHAR(128) NOT NULL,
    created_at BIGINT       NOT NULL,
    PRIMARY KEY (user_id, type)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS mutes (
    user_id    VARCHAR(128) NOT NULL,
    object     VARCHAR(133) NOT NULL,
    until      BIGINT       NULL,
    created_at BIGINT       NOT NULL,
    PRIMARY KEY (user_id, object)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS contacts (
    owner        VARCHAR(128) NOT NULL,
    contact      VARCHAR(128) NOT NULL,
    relationship VARCHAR(16)  NOT NULL,
    version      BIGINT       NOT NULL,
    deleted      BOOLEAN      NOT NULL DEFAULT FALSE,
    created_at   BIGINT       NOT NULL,
    updated_at   BIGINT       NOT NULL,
    PRIMARY KEY (owner, contact),
    KEY contacts_by_contact (contact, deleted, owner),
    KEY contacts_deleted (deleted, updated_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS outbox (
    id         VARCHAR(36)  NOT NULL PRIMARY KEY,
    kind       VARCHAR(64)  NOT NULL,
    subject    VARCHAR(512) NOT NULL,
    payload    MEDIUMTEXT   CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    created_at BIGINT       NOT NULL,
    KEY outbox_by_age (kind, created_at, id),
    KEY outbox_by_subject (kind, subject)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS api_keys (
    id           VARCHAR(32)  NOT NULL PRIMARY KEY,
    name         VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    scopes       VARCHAR(255) NOT NULL,
    secret_hash  CHAR(64)     NOT NULL,
    created_at   BIGINT       NOT NULL,
    last_used_at BIGINT       NULL,
    revoked_at   BIGINT       NULL,
    expires_at   BIGINT       NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS uploads (
    id          VARCHAR(128) NOT NULL PRIMARY KEY,
    owner       VARCHAR(128) NOT NULL,
    visibility  VARCHAR(16)  NOT NULL,
    deleted     BOOLEAN      NOT NULL DEFAULT FALSE,
    uploaded_at BIGINT       NOT NULL,
    created_at  BIGINT       NOT NULL,
    updated_at  BIGINT       NOT NULL,
    KEY uploads_newest (owner, visibility, deleted, uploaded_at, id),
    KEY uploads_deleted (deleted, updated_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS idempotency (
    id         CHAR(64)   NOT NULL PRIMARY KEY,
    body_hash  CHAR(64)   NOT NULL,
    answer     MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    created_at BIGINT     NOT NULL,
    KEY idempotency_by_age (created_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS sales (
    id             VARCHAR(128) NOT NULL PRIMARY KEY,
    version        BIGINT       NOT NULL,
    item_totals    MEDIUMTEXT   NOT NULL,
    starts_at      BIGINT       NOT NULL,
    ends_at        BIGINT       NOT NULL,
    per_user_limit BIGINT       NOT NULL,
    hold_ms        BIGINT       NOT NULL,
    idle_ms        BIGINT       NOT NULL,
    partitions     INT          NOT NULL,
    created_at     BIGINT       NOT NULL,
    updated_at     BIGINT       NOT NULL,
    loading        VARCHAR(32)  NOT NULL DEFAULT '',
    max_hold_ms    BIGINT       NOT NULL DEFAULT 0
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS orders (
    reservation VARCHAR(64)  NOT NULL PRIMARY KEY,
    sale        VARCHAR(128) NOT NULL,
    user_id     VARCHAR(128) NOT NULL,
    order_lines TEXT         NOT NULL,
    created_at  BIGINT       NOT NULL,
    KEY orders_by_age (sale, created_at, reservation)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS token_keys (
    id          VARCHAR(32)  NOT NULL PRIMARY KEY,
    private_key CHAR(64)     NOT NULL,
    created_at  BIGINT       NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS token_revocations (
    user_id VARCHAR(128) NOT NULL PRIMARY KEY,
    up_to   BIGINT       NOT NULL,
    version BIGINT       NOT NULL,
    KEY token_revocations_by_version (version)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS restocks (
    sale       VARCHAR(128) NOT NULL,
    name       VARCHAR(32)  NOT NULL,
    version    BIGINT       NOT NULL,
    answer     VARCHAR(255) NOT NULL,
    expires_at BIGINT       NOT NULL,
    PRIMARY KEY (sale, name),
    KEY restocks_by_age (expires_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS topic_members (
    topic     VARCHAR(128) NOT NULL,
    user_id   VARCHAR(128) NOT NULL,
    joined_at BIGINT       NOT NULL,
    PRIMARY KEY (topic, user_id),
    KEY topic_members_by_user (user_id, topic)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS open_topics (
    topic      VARCHAR(128) NOT NULL PRIMARY KEY,
    created_at BIGINT       NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS deleted_sales (
    id         VARCHAR(128) NOT NULL PRIMARY KEY,
    deletion   VARCHAR(32)  NOT NULL,
    used       BOOLEAN      NOT NULL,
    deleted_at BIGINT       NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS operations (
    id         VARCHAR(36)  NOT NULL PRIMARY KEY,
    action     VARCHAR(64)  NOT NULL,
    subject    VARCHAR(128) NOT NULL,
    turn       VARCHAR(192) NULL,
    since      BIGINT       NOT NULL,
    removed    TEXT         NOT NULL,
    kept       TEXT         NOT NULL,
    created_at BIGINT       NOT NULL,
    settled_at BIGINT       NULL,
    done_at    BIGINT       NULL,
    UNIQUE KEY operations_by_turn (turn),
    KEY operations_by_age (done_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS schedules (
    id         VARCHAR(128) NOT NULL PRIMARY KEY,
    definition TEXT         NOT NULL,
    payload    MEDIUMTEXT   CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    next_at    BIGINT       NOT NULL,
    last_at    BIGINT       NULL,
    created_at BIGINT       NOT NULL,
    updated_at BIGINT       NOT NULL,
    KEY schedules_by_time (next_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS broadcasts (
    object      VARCHAR(133) NOT NULL PRIMARY KEY,
    topic       VARCHAR(128) NOT NULL,
    environment VARCHAR(16)  NOT NULL,
    keep        VARCHAR(16)  NOT NULL,
    channel     VARCHAR(512) NOT NULL DEFAULT '',
    state       VARCHAR(16)  NOT NULL,
    ends_at     BIGINT       NOT NULL,
    asked_at    BIGINT       NOT NULL,
    created_at  BIGINT       NOT NULL,
    updated_at  BIGINT       NOT NULL,
    KEY broadcasts_by_app (topic, environment, object)
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS fact_types (
    type  VARCHAR(128) NOT NULL PRIMARY KEY,
    since BIGINT       NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS webhooks (
    id         VARCHAR(128) NOT NULL PRIMARY KEY,
    version    BIGINT       NOT NULL,
    definition MEDIUMTEXT   NOT NULL,
    series     VARCHAR(64)  NOT NULL,
    gone       BOOLEAN      NOT NULL,
    secret     VARCHAR(128) NOT NULL,
    secret_at  BIGINT       NOT NULL,
    old_secrets VARCHAR(1024) NOT NULL,
    created_at BIGINT       NOT NULL,
    updated_at BIGINT       NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET ascii COLLATE ascii_bin;
-- +goose StatementEnd
