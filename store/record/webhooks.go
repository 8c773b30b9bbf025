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
	Version    int64  `db:"version"` // of VersionWebhooks when the definition or gone changed last; 0: there is no such webhook
	Definition string `db:"definition"`
	Series     string `db:"series"`
	Gone       bool   `db:"gone"`
	Secret     string `db:"secret"`
	SecretAt   int64  `db:"secret_at"`
	OldSecrets string `db:"old_secrets"` // a JSON list of oldSecret, the newest first; "": there is none
	CreatedAt  int64  `db:"created_at"`
	UpdatedAt  int64  `db:"updated_at"`
	Now        int64  `db:"now_ms"`
	Raised     int64  `db:"raised"` // what VersionWebhooks is in the transaction of a change
}

const webhookColumns = "id, version, definition, series, gone, secret, secret_at, old_secrets, created_at, updated_at"

// oldSecret is a secret that another one has replaced.
type oldSecret struct {
	Secret string `json:"secret"`
	Until  int64  `json:"until"` // it signs, in ms
}

// NewWebhook is what a webhook gets when it is made.
type NewWebhook struct{ Secret, Series string }

// ErrNewWebhook says that there is no such webhook, and that the call cannot make one: it has no secret and no series.
var ErrNewWebhook = errors.New("a new webhook needs a secret and a series")

// PutWebhook creates or replaces a webhook, for a request with all its defaults, if the condition holds for its present
// version; otherwise api.CodeVersionMismatch. It is api.CodeTooManyNames for one too many, and ErrNewWebhook if one were to be
// created and made is empty. The same again changes nothing, but turns on a webhook that its receiver has turned off. Every change
// raises VersionWebhooks.
func (db *DB) PutWebhook(ctx context.Context, id string, r *api.WebhookRequest, m api.Match, made NewWebhook) (w *Webhook, created bool, err error) {
	definition, err := json.Marshal(r)
	if err != nil {
		return nil, false, fmt.Errorf("put webhook %s: %w", id, err)
	}
	w, err = db.changeWebhook(ctx, id, m, func(ctx context.Context, tx *sqlx.Tx, row *webhookRow) error {
		if created = row.Version == 0; created {
			if err := db.roomForWebhook(ctx, tx); err != nil {
				return err
			}
			if made == (NewWebhook{}) {
				return ErrNewWebhook
			}
			row.Series, row.Secret, row.SecretAt, row.CreatedAt = made.Series, made.Secret, row.Now, row.Now
			return nil
		}
		if row.Definition == string(definition) && !row.Gone {
			return errUnchanged
		}
		return nil
	}, func(row *webhookRow) { row.Version, row.Definition, row.Gone = row.Raised, string(definition), false })
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
	return db.changeWebhook(ctx, id, api.Match{}, func(ctx context.Context, tx *sqlx.Tx, row *webhookRow) (err error) {
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
	_, err := db.changeWebhook(ctx, w.ID, api.Match{}, func(_ context.Context, _ *sqlx.Tx, row *webhookRow) error {
		if row.Series != w.Series || row.Gone || row.UpdatedAt != w.UpdatedAt.UnixMilli() {
			return errUnchanged
		}
		return nil
	}, func(row *webhookRow) { row.Version, row.Gone = row.Raised, true })
	return err
}

// TouchWebhook tells all processes that a webhook is to be read again from where Redis says. It raises VersionWebhooks.
// api.CodeNotFound when there is no such webhook.
func (db *DB) TouchWebhook(ctx context.Context, id string) error {
	_, err := db.changeWebhook(ctx, id, api.Match{}, onRecord, func(*webhookRow) {})
	return err
}

// onRecord refuses the change of a webhook that is not there.
func onRecord(_ context.Context, _ *sqlx.Tx, row *webhookRow) error {
	if row.Version == 0 {
		return noWebhook(row.ID)
	}
	return nil
}

func noWebhook(id string) error { return api.Errorf(api.CodeNotFound, "there is no webhook %s", id) }

// changeWebhook changes one row, if the condition holds and check allows it. check gets the row as it is, with Version 0 if there is
// none.
func (db *DB) changeWebhook(ctx context.Context, id string, m api.Match, check func(context.Context, *sqlx.Tx, *webhookRow) error, change func(*webhookRow)) (w *Webhook, err error) {
	err = db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		row, err := db.webhookToChange(ctx, tx, id, m)
		if err != nil {
			return err
		}
		checked := check(ctx, tx, &row)
		if checked == nil {
			change(&row)
			row.UpdatedAt = max(row.Now, row.UpdatedAt+1) // each change has a time of its own
			checked = writeWebhook(ctx, tx, db.d, row)
		} else if !errors.Is(checked, errUnchanged) || row.Version == 0 {
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

// webhookToChange reads a webhook's row, with Version 0 if there is none, and checks the condition of a change. Raising the
// versions first makes other changes wait.
func (db *DB) webhookToChange(ctx context.Context, tx *sqlx.Tx, id string, m api.Match) (row webhookRow, err error) {
	if err := db.raiseWebhooks(ctx, tx); err != nil {
		return row, err
	}
	err = tx.GetContext(ctx, &row, "SELECT "+webhookColumns+" FROM webhooks WHERE id = ?", id)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return row, err
	}
	row.ID = id
	if err := tx.GetContext(ctx, &row, "SELECT version AS raised, "+db.d.now+" AS now_ms FROM versions WHERE name = ?", VersionWebhooks); err != nil {
		return row, err
	}
	if !m.Holds(row.Version) {
		return row, row.mismatch()
	}
	return row, nil
}

// mismatch is the error of a condition that does not hold, with the present webhook and its version.
func (r *webhookRow) mismatch() error {
	e := api.Errorf(api.CodeVersionMismatch, "the webhook is not the one that the condition asks for")
	if r.Version == 0 {
		return e
	}
	w, err := r.decode()
	if err != nil {
		return err
	}
	return e.With("version", w.Version).With("webhook", &w.Webhook)
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
		") VALUES (:id, :version, :definition, :series, :gone, :secret, :secret_at, :old_secrets, :created_at, :updated_at)"+
		d.onConflict("webhooks", "id", []string{"version", "definition", "gone", "secret", "secret_at", "old_secrets", "updated_at"}), row)
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

// DeleteWebhook removes a webhook, if the condition holds for its present version; otherwise api.CodeVersionMismatch. Without a
// condition, removing one that is not there is no error and changes nothing. It raises VersionWebhooks.
func (db *DB) DeleteWebhook(ctx context.Context, id string, m api.Match) error {
	return db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		if _, err := db.webhookToChange(ctx, tx, id, m); err != nil {
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
		ID: r.ID, Version: r.Version, URL: request.URL, Types: request.Types, Max: *request.Max, State: request.State, Gone: r.Gone,
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
