package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"fanfare/delivery/webpush"
)

// parseVAPID parses vapid create.
func parseVAPID(args []string) (action, error) {
	if len(args) == 0 || args[0] != "create" {
		return nil, usageError("vapid takes create: fanfare vapid create [--file F]")
	}
	flags := flag.NewFlagSet("vapid create", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	file := flags.String("file", "vapid-private.pem", "where the private key is written")
	if err := flags.Parse(args[1:]); err != nil {
		return nil, usageError("vapid create: " + err.Error())
	}
	if flags.NArg() > 0 {
		return nil, usageError(fmt.Sprintf("vapid create: %q belongs to no flag", flags.Arg(0)))
	}
	return func(_ context.Context, _ *config, to outputs) error { return createVAPID(*file, to) }, nil
}

// createVAPID writes a new private key, never over another file, and prints its public key (W4).
func createVAPID(file string, to outputs) error {
	private, public, err := webpush.NewKey()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s is there already: browsers that subscribed with its key would get nothing more, so it is not replaced", file)
	}
	if err != nil {
		return fmt.Errorf("write the private key: %w", err)
	}
	_, err = out.Write(private)
	if err := errors.Join(err, out.Close()); err != nil {
		return errors.Join(fmt.Errorf("write the private key: %w", err), os.Remove(file))
	}
	fmt.Fprintln(to.out, public)
	to.say("the private key is in %s; the line above is public_key of the app in the apps file", file)
	return nil
}
