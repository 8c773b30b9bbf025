package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"fanfare/api"
	"fanfare/store/apikeys"
	"fanfare/store/record"
	"fanfare/store/usertokens"
)

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// parseExpiry reads when a key ends: after days (90d) or a duration (12h), at the
// end of a day in UTC (2027-01-31), or at a time; "": never.
func parseExpiry(text string, now time.Time) (*api.Time, error) {
	if text == "" {
		return nil, nil
	}
	given, err := api.ParseTime(text)
	at := given.Time
	if day, bad := api.ParseTime(text + "T00:00:00Z"); bad == nil {
		at, err = day.AddDate(0, 0, 1), nil
	}
	if days, isDays := strings.CutSuffix(text, "d"); isDays {
		n, bad := strconv.ParseInt(days, 10, 32) // more would wrap around
		at, err = now.AddDate(0, 0, int(n)), bad
	} else if lasts, bad := time.ParseDuration(text); bad == nil {
		at, err = now.Add(lasts), nil
	}
	if err != nil || !at.After(now) || at.Year() > 9999 {
		return nil, usageError(fmt.Sprintf("--expires: %q is not a time to come, such as 90d, 12h, 2027-01-31 or 2027-01-31T12:00:00Z", text))
	}
	return new(api.AtMillis(at.UnixMilli())), nil
}

// parseList parses keys list.
func parseList(args []string) (action, error) {
	asJSON := len(args) == 1 && strings.TrimLeft(args[0], "-") == "json"
	if len(args) > 0 && !asJSON {
		return nil, usageError(fmt.Sprintf("keys list takes --json or nothing, not %q", args))
	}
	return withKeys(func(ctx context.Context, store *apikeys.Store, to outputs) error {
		all, err := store.List(ctx)
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(to.out, all)
		}
		return printKeys(to.out, all)
	}), nil
}

// printKeys prints a table of keys, never their secrets.
func printKeys(w io.Writer, all []api.Key) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tNAME\tSCOPES\tCREATED\tLAST USED\tEXPIRES\tREVOKED")
	for _, k := range all {
		used, expires, revoked := "never", "never", ""
		if k.LastUsed != nil {
			used = k.LastUsed.Format(time.RFC3339)
		}
		if k.ExpiresAt != nil {
			expires = k.ExpiresAt.Format(time.RFC3339)
		}
		if k.RevokedAt != nil {
			revoked = k.RevokedAt.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, k.Name, join(k.Scopes), k.CreatedAt.Format(time.RFC3339), used, expires, revoked)
	}
	return table.Flush()
}

// parseRevoke parses keys revoke.
func parseRevoke(args []string) (action, error) {
	if len(args) != 1 {
		return nil, usageError("keys revoke takes one id: fanfare keys revoke <id>")
	}
	id := apikeys.IDOf(args[0])
	return withKeys(func(ctx context.Context, store *apikeys.Store, to outputs) error {
		all, err := store.List(ctx)
		if err != nil {
			return err
		}
		if err := store.Revoke(ctx, id); err != nil {
			return fmt.Errorf("key %s: %w", id, err)
		}
		for _, k := range all {
			switch {
			case k.ID != id:
			case k.RevokedAt != nil:
				to.say("key %s (%s) was ended before, at %s", k.ID, k.Name, k.RevokedAt.UTC().Format(time.RFC3339))
			default:
				to.say("key %s (%s, for %s) is ended; running servers follow within 10 s", k.ID, k.Name, join(k.Scopes))
			}
		}
		return nil
	}), nil
}

// parseRotate parses keys rotate-token-key.
func parseRotate(args []string) (action, error) {
	end := len(args) == 1 && strings.TrimLeft(args[0], "-") == "end-tokens"
	if len(args) > 0 && !end {
		return nil, usageError(fmt.Sprintf("keys rotate-token-key takes --end-tokens or nothing, not %q", args))
	}
	return withRecord(func(ctx context.Context, rec *record.DB, to outputs) error {
		kid, err := usertokens.Rotate(ctx, rec, end)
		if err != nil {
			return err
		}
		then := "servers sign with it in a minute, and tokens of the one before stand until they end"
		if end {
			then = "tokens of those before end within 10 s"
		}
		to.say("the key %s is made; %s", kid, then)
		return nil
	}), nil
}

// makeFirstKey makes the key of FANFARE_ADMIN_KEY_FILE if there never was a key.
func (a *app) makeFirstKey(ctx context.Context, database patience) error {
	if a.config.AdminKey == "" || a.keys.Any() {
		return nil
	}
	text, err := os.ReadFile(a.config.AdminKey)
	secret := strings.TrimSpace(string(text))
	if err != nil {
		return fmt.Errorf("FANFARE_ADMIN_KEY_FILE: %w", err)
	}
	if err := apikeys.CheckSecret(secret); err != nil {
		return fmt.Errorf("FANFARE_ADMIN_KEY_FILE: what %s holds %w", a.config.AdminKey, err)
	}
	return database.until(ctx, func(ctx context.Context) error {
		created, err := a.keys.CreateFirst(ctx, secret)
		if created {
			a.log.Info("the first API key was made", "variable", "FANFARE_ADMIN_KEY_FILE")
		}
		return err
	})
}
