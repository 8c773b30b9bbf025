package record

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"fanfare/api"
)

// oldSecretTTL is how long a secret signs that another one has replaced.
const oldSecretTTL = 24 * time.Hour

// Webhook is a webhook with what its sender needs. Secrets and Series are shown to nobody but who sends.
type Webhook struct {
	api.Webhook
	// Secrets are those that sign now, the newest first.
	Secrets []string
	// Series names what Redis keeps of the webhook. It is another one if the webhook was deleted and made again.
	Series string
}

// webhookRow is a row of webhooks. The definition is the request with all its defaults.
type webhookRow struct {
	ID         string `db:"id"`
	Definition string `db:"definition"`
	Series     string `db:"series"`
	Gone       bool   `db:"gone"`
	Secret     string `db:"secret"`
	SecretAt   int64  `db:"secret_at"`
	OldSecrets string `db:"old_secrets"` // a JSON list of oldSecret, the newest first; "": there is none
	CreatedAt  int64  `db:"created_at"`
	UpdatedAt  int64  `db:"updated_at"`
	Now        int64  `db:"now_ms"`
}

const webhookColumns = "id, definition, series, gone, secret, secret_at, old_secrets, created_at, updated_at"

// oldSecret is a secret that another one has replaced.
type oldSecret struct {
	Secret string `json:"secret"`
	Until  int64  `json:"until"` // it signs, in ms
}

// PutWebhook creates or replaces a webhook, for a request with all its defaults; api.CodeTooManyNames for one too many.
// A new one gets the secret and the series. The same again changes nothing, but turns on a webhook that its receiver has
// turned off. Every change raises VersionWebhooks.
func (db *DB) PutWebhook(ctx context.Context, id string, r *api.WebhookRequest, secret, series string) (w *Webhook, created bool, err error) {
	definition, err := json.Marshal(r)
	if err != nil {
		return nil, false, fmt.Errorf("put webhook %s: %w", id, err)
	}
	w, err = db.changeWebhook(ctx, id, func(ctx context.Context, tx *sqlx.Tx, row *webhookRow) error {
		if created = row.CreatedAt == 0; created {
			row.Series, row.Secret, row.SecretAt, row.CreatedAt = series, secret, row.Now, row.Now
			return db.roomForWebhook(ctx, tx)
		}
		if row.Definition == string(definition) && !row.Gone {
			return errUnchanged
		}
		return nil
	}, func(row *webhookRow) { row.Definition, row.Gone = string(definition), false })
	return w, created, err
}

// roomForWebhook returns an error if there are as many webhooks as there may be.
func (db *DB) roomForWebhook(ctx context.Context, tx *sqlx.Tx) error {
	var have int
	if err := tx.GetContext(ctx, &have, "SELECT COUNT(*) FROM webhooks"); err != nil {
		return err
	}
	if have < api.MaxWebhooks {
		return nil
	}
	e := api.Errorf(api.CodeTooManyNames, "there are as many webhooks as there may be, %d", api.MaxWebhooks)
	e.RetryAfter = retrySchedules
	return e
}

// AddWebhookSecret gives a webhook another secret. The one before it signs as well for 24 h. If as many sign as may, it is
// api.CodeTooManyNames, with when the oldest one ends. api.CodeNotFound when there is no such webhook. It raises VersionWebhooks.
func (db *DB) AddWebhookSecret(ctx context.Context, id, secret string) (*Webhook, error) {
	var old []oldSecret
	return db.changeWebhook(ctx, id, func(ctx context.Context, tx *sqlx.Tx, row *webhookRow) (err error) {
		if err = onRecord(ctx, tx, row); err != nil {
			return err
		}
		if old, err = row.oldSecrets(); err != nil || len(old)+1 < api.MaxWebhookSecrets {
			return err
		}
		e := api.Errorf(api.CodeTooManyNames, "the webhook %s has %d secrets that sign; another can be made when the oldest has ended", id, api.MaxWebhookSecrets)
		e.RetryAfter = time.Duration(old[len(old)-1].Until-row.Now) * time.Millisecond
		return e
	}, func(row *webhookRow) {
		text, _ := json.Marshal(append([]oldSecret{{row.Secret, row.Now + oldSecretTTL.Milliseconds()}}, old...)) // texts and numbers always marshal
		row.OldSecrets, row.Secret, row.SecretAt = string(text), secret, row.Now
	})
}

// oldSecrets are those that still sign, the newest first.
func (r *webhookRow) oldSecrets() (old []oldSecret, err error) {
	if r.OldSecrets != "" {
		if err := json.Unmarshal([]byte(r.OldSecrets), &old); err != nil {
			return nil, fmt.Errorf("decode the secrets of webhook %s", r.ID) // the cause might quote them
		}
	}
	return slices.DeleteFunc(old, func(o oldSecret) bool { return o.Until <= r.Now }), nil
}

// EndWebhook turns a webhook off because its receiver said so, unless it was changed since w was read. It raises
// VersionWebhooks.
func (db *DB) EndWebhook(ctx context.Context, w *Webhook) error {
	_, err := db.changeWebhook(ctx, w.ID, func(_ context.Context, _ *sqlx.Tx, row *webhookRow) error {
		if row.Series != w.Series || row.Gone || row.UpdatedAt != w.UpdatedAt.UnixMilli() {
			return errUnchanged
		}
		return nil
	}, func(row *webhookRow) { row.Gone = true })
	return err
}

// TouchWebhook tells all processes that a webhook is to be read again from where Redis says. It raises VersionWebhooks.
// api.CodeNotFound when there is no such webhook.
func (db *DB) TouchWebhook(ctx context.Context, id string) error {
	_, err := db.changeWebhook(ctx, id, onRecord, func(*webhookRow) {})
	return err
}

// onRecord refuses the change of a webhook that is not there.
func onRecord(_ context.Context, _ *sqlx.Tx, row *webhookRow) error {
	if row.CreatedAt == 0 {
		return noWebhook(row.ID)
	}
	return nil
}

func noWebhook(id string) error { return api.Errorf(api.CodeNotFound, "there is no webhook %s", id) }

// changeWebhook changes one row, if check allows it. check gets the row as it is, with CreatedAt 0 if there is none.
func (db *DB) changeWebhook(ctx context.Context, id string, check func(context.Context, *sqlx.Tx, *webhookRow) error, change func(*webhookRow)) (w *Webhook, err error) {
	err = db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		if err := db.raiseWebhooks(ctx, tx); err != nil {
			return err
		}
		row := webhookRow{ID: id}
		err := tx.GetContext(ctx, &row, "SELECT "+webhookColumns+" FROM webhooks WHERE id = ?", id)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		row.ID = id
		if row.Now, err = db.now(ctx, tx); err != nil {
			return err
		}
		checked := check(ctx, tx, &row)
		if checked == nil {
			change(&row)
			row.UpdatedAt = max(row.Now, row.UpdatedAt+1) // each change has a time of its own
			checked = writeWebhook(ctx, tx, db.d, row)
		} else if !errors.Is(checked, errUnchanged) || row.CreatedAt == 0 {
			return checked
		}
		if w, err = row.decode(); err != nil {
			return err
		}
		return checked
	})
	if err != nil {
		return nil, fmt.Errorf("change webhook %s: %w", id, err)
	}
	return w, nil
}

// raiseWebhooks raises VersionWebhooks, and VersionFacts because facts of the types of webhooks are written.
func (db *DB) raiseWebhooks(ctx context.Context, tx *sqlx.Tx) error {
	if err := db.raise(ctx, tx, VersionFacts); err != nil {
		return err
	}
	return db.raise(ctx, tx, VersionWebhooks)
}

func writeWebhook(ctx context.Context, tx *sqlx.Tx, d dialect, row webhookRow) error {
	_, err := tx.NamedExecContext(ctx, "INSERT INTO webhooks ("+webhookColumns+
		") VALUES (:id, :definition, :series, :gone, :secret, :secret_at, :old_secrets, :created_at, :updated_at)"+
		d.onConflict("webhooks", "id", []string{"definition", "gone", "secret", "secret_at", "old_secrets", "updated_at"}), row)
	return err
}

// Webhook reads one webhook; api.CodeNotFound when there is none.
func (db *DB) Webhook(ctx context.Context, id string) (*Webhook, error) {
	var row webhookRow
	err := db.get(ctx, &row, "SELECT "+webhookColumns+", "+db.d.now+" AS now_ms FROM webhooks WHERE id = ?", id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, noWebhook(id)
	}
	if err != nil {
		return nil, err
	}
	return row.decode()
}

// Webhooks reads all webhooks by their ids. There are at most api.MaxWebhooks.
func (db *DB) Webhooks(ctx context.Context) ([]Webhook, error) {
	var found []webhookRow
	err := db.list(ctx, &found, "SELECT "+webhookColumns+", "+db.d.now+" AS now_ms FROM webhooks ORDER BY id")
	if err != nil {
		return nil, err
	}
	all := make([]Webhook, 0, len(found))
	for _, row := range found {
		w, err := row.decode()
		if err != nil {
			return nil, err
		}
		all = append(all, *w)
	}
	return all, nil
}

// WebhookTypes lists the types of facts that webhooks want, also those that are off.
func (db *DB) WebhookTypes(ctx context.Context) ([]string, error) {
	all, err := db.Webhooks(ctx)
	types := []string{}
	for _, w := range all {
		types = append(types, w.Types...)
	}
	return types, err
}

// DeleteWebhook removes a webhook. If there is none, nothing changes. It raises VersionWebhooks.
func (db *DB) DeleteWebhook(ctx context.Context, id string) error {
	return db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		if err := db.raiseWebhooks(ctx, tx); err != nil {
			return err
		}
		return changed(tx.ExecContext(ctx, "DELETE FROM webhooks WHERE id = ?", id))
	})
}

func (r *webhookRow) request() (*api.WebhookRequest, error) {
	var request api.WebhookRequest
	if err := json.Unmarshal([]byte(r.Definition), &request); err != nil {
		return nil, fmt.Errorf("decode webhook %s: %w", r.ID, err)
	}
	return &request, nil
}

func (r *webhookRow) decode() (*Webhook, error) {
	request, err := r.request()
	if err != nil {
		return nil, err
	}
	w := &Webhook{Series: r.Series, Secrets: []string{r.Secret}, Webhook: api.Webhook{
		ID: r.ID, URL: request.URL, Types: request.Types, Max: *request.Max, State: request.State, Gone: r.Gone,
		SecretAt: api.AtMillis(r.SecretAt), CreatedAt: api.AtMillis(r.CreatedAt), UpdatedAt: api.AtMillis(r.UpdatedAt),
	}}
	if r.Gone {
		w.State = api.WebhookOff
	}
	old, err := r.oldSecrets()
	for i := range old {
		w.Secrets = append(w.Secrets, old[i].Secret)
	}
	if len(old) > 0 {
		w.OldSecretUntil = timeOf(&old[0].Until)
	}
	return w, err
}
