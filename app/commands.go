package app

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"fanfare/api"
	"fanfare/store/apikeys"
	"fanfare/store/record"
)

// action runs a command after its arguments and the configuration have been parsed.
type action func(context.Context, *config, outputs) error

// command parses arguments.
type command func(args []string) (action, error)

// commands lists the commands that need the configuration; version and help do not.
func commands() map[string]command {
	return map[string]command{
		"serve":       withoutArguments("serve", serve),
		"migrate":     withoutArguments("migrate", migrate),
		"healthcheck": withoutArguments("healthcheck", healthcheck),
		"keys":        parseKeys,
		"vapid":       parseVAPID,
	}
}

// withoutArguments is a command that takes no arguments.
func withoutArguments(name string, do action) command {
	return func(args []string) (action, error) {
		if len(args) > 0 {
			return nil, usageError(fmt.Sprintf("%s takes no arguments, not %q", name, args[0]))
		}
		return do, nil
	}
}

// wantsHelp reports whether help was asked for, anywhere on the line.
func wantsHelp(args []string) bool {
	return len(args) > 0 && (args[0] == "help" || slices.ContainsFunc(args, func(arg string) bool {
		return arg == "--help" || arg == "-help" || arg == "-h"
	}))
}

// help prints the commands and the configuration table.
func help(to outputs) error {
	fmt.Fprint(to.out, `fanfare is a real-time backend: push notifications, recent contacts, group chat, stock for
flash sales, jobs, locks, values and counters, on Redis and SQL.

  fanfare                     serve; with nothing configured, embedded on 127.0.0.1:8080
  fanfare keys create --name NAME --scopes a,b [--expires 90d] [--json]
                              print a new API key, once; the scopes are listed below;
                              it may expire after so many days (90d) or hours (12h), or on a day
                              (2027-01-31)
  fanfare keys list [--json]  show id, name, scopes, created, last used, expires, revoked
  fanfare keys revoke <id>    end a key, and say which; running servers follow within 10 s
  fanfare keys rotate-token-key [--end-tokens]
                              make a new key for the user tokens that fanfare makes; those
                              of the key before stand until they end, or end within 10 s
  fanfare vapid create [--file F]
                              make a key for Web Push: write the private key to F, default
                              vapid-private.pem, and print the public key
  fanfare migrate             bring the database's tables up to date (serve does it too)
  fanfare healthcheck         ask the server at FANFARE_ADDR; exit 0 if it lives
  fanfare version             print the version
  fanfare --help              print this

SIGTERM drains and stops; SIGHUP reads the apps file with all keys and certificates
that it names, the keys of user tokens and the TLS certificate again and lets paused
apps try at once.

`)
	for _, line := range wrap("Scopes of keys: "+strings.ReplaceAll(join(api.Scopes), ",", ", ")+".", 80) {
		fmt.Fprintln(to.out, line)
	}
	fmt.Fprint(to.out, "\nConfiguration is by environment variables:\n\n")
	writeTable(to.out)
	return nil
}

// version prints the build's version.
func version(to outputs) error {
	name, revision := builtAs()
	if revision != "" {
		revision = " " + revision
	}
	fmt.Fprintf(to.out, "fanfare %s%s (%s %s/%s)\n", name, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
}

// migrate brings the schema up to date and does nothing else.
func migrate(ctx context.Context, c *config, to outputs) error {
	rec, err := openRecord(ctx, c, newLogger(c, to))
	if err != nil {
		return err
	}
	have, _, err := rec.SchemaVersion(ctx)
	if err == nil {
		to.say("the schema is at version %d", have)
	}
	return errors.Join(err, rec.Close())
}

// commandPatience is how long a command waits for the database.
const commandPatience = 30 * time.Second

// openRecord opens the database and brings its schema up to date.
func openRecord(ctx context.Context, c *config, log *slog.Logger) (*record.DB, error) {
	rec, err := record.Open(ctx, record.Options{URL: c.DatabaseURL, Logger: log})
	if err != nil {
		return nil, fmt.Errorf("FANFARE_DATABASE_URL: %w", err)
	}
	if have, _, err := rec.SchemaVersion(ctx); rec.Embedded() && err == nil && have == 0 {
		log.Warn("the database is new: a server that was started in another folder does not use it", "database", c.DatabaseURL)
	}
	wait := patience{variable: databaseVariable, log: log, most: commandPatience, refused: record.Refused}
	if err := wait.until(ctx, rec.Migrate); err != nil {
		return nil, errors.Join(err, rec.Close())
	}
	return rec, nil
}

// healthcheck asks the server at FANFARE_ADDR whether it is alive, for containers that have no
// other program for that.
func healthcheck(ctx context.Context, c *config, _ outputs) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	scheme := "http"
	if c.TLSCertFile != "" {
		scheme = "https"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+reachable(c.Addr)+"/healthz", nil)
	if err != nil {
		return err
	}
	// The server is on this machine, and its certificate is for a name and not for 127.0.0.1.
	own := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	resp, err := own.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("healthz answered %s", resp.Status)
	}
	return nil
}

// parseKeys parses keys create, list, revoke and rotate-token-key.
func parseKeys(args []string) (action, error) {
	const takes = "keys takes create, list, revoke or rotate-token-key"
	verbs := map[string]command{
		"create": parseCreate, "list": parseList, "revoke": parseRevoke, "rotate-token-key": parseRotate,
	}
	if len(args) == 0 {
		return nil, usageError(takes)
	}
	parse, ok := verbs[args[0]]
	if !ok {
		return nil, usageError(fmt.Sprintf("%s, not %q%s", takes, args[0], nearest(args[0], maps.Keys(verbs))))
	}
	return parse(args[1:])
}

func parseCreate(args []string) (action, error) {
	flags := flag.NewFlagSet("keys create", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	name := flags.String("name", "", "what the key is for")
	list := flags.String("scopes", "", "what it may do, separated by commas")
	expires := flags.String("expires", "", "when it ends by itself: a day, a time, or how long it lasts")
	asJSON := flags.Bool("json", false, "print JSON")
	if err := flags.Parse(args); err != nil {
		return nil, usageError("keys create: " + err.Error())
	}
	if flags.NArg() > 0 {
		return nil, usageError(fmt.Sprintf("keys create: %q belongs to no flag", flags.Arg(0)))
	}
	if strings.TrimSpace(*name) == "" || *list == "" {
		return nil, usageError("keys create needs --name NAME and --scopes a,b")
	}
	scopes, err := parseScopes(*list)
	if err != nil {
		return nil, err
	}
	until, err := parseExpiry(*expires, time.Now())
	if err != nil {
		return nil, err
	}
	return withKeys(func(ctx context.Context, store *apikeys.Store, to outputs) error {
		secret, key, err := store.Create(ctx, *name, scopes, until)
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(to.out, api.NewKey{Key: *key, Secret: secret})
		}
		fmt.Fprintln(to.out, secret)
		to.say("key %s (%s) is made; it is shown this once", key.ID, key.Name)
		return nil
	}), nil
}

func parseScopes(list string) ([]api.Scope, error) {
	var scopes []api.Scope
	for part := range strings.SplitSeq(list, ",") {
		scope := api.Scope(strings.TrimSpace(part))
		if !slices.Contains(api.Scopes, scope) {
			return nil, usageError(fmt.Sprintf("%q is no scope; there are %s", scope, join(api.Scopes)))
		}
		if !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	return scopes, nil
}

func join(scopes []api.Scope) string {
	names := make([]string, len(scopes))
	for i, s := range scopes {
		names[i] = string(s)
	}
	return strings.Join(names, ",")
}

// withRecord opens the record for a command.
func withRecord(do func(context.Context, *record.DB, outputs) error) action {
	return func(ctx context.Context, c *config, to outputs) error {
		rec, err := openRecord(ctx, c, newLogger(c, to))
		if err != nil {
			return err
		}
		return errors.Join(do(ctx, rec, to), rec.Close())
	}
}

// withKeys opens the record for a command about API keys.
func withKeys(do func(context.Context, *apikeys.Store, outputs) error) action {
	return withRecord(func(ctx context.Context, rec *record.DB, to outputs) error {
		return do(ctx, apikeys.New(rec, apikeys.Options{}), to)
	})
}
