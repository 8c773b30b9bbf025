package app

import (
	"fmt"
	"io"
	"net/url"
	"reflect"
	"strings"
	"time"

	"fanfare/api"
)

// variable is one row of the configuration table.
type variable struct {
	Group, Name, Default, Meaning string // Group is empty except for the first variable of a group

	field  int
	secret bool
}

// variables lists every variable in the order of the config struct.
func variables() []variable {
	t := reflect.TypeFor[config]()
	out := make([]variable, 0, t.NumField())
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		if tag.Get("env") == "" {
			continue
		}
		shown := tag.Get("envDefault")
		if s := tag.Get("shown"); s != "" {
			shown = s
		}
		out = append(out, variable{tag.Get("group"), tag.Get("env"), shown, tag.Get("desc"), i, tag.Get("secret") != ""})
	}
	return out
}

// writeTable prints the configuration table for a terminal.
func writeTable(w io.Writer) {
	for _, v := range variables() {
		if v.Group != "" {
			fmt.Fprintf(w, "\n%s\n", v.Group)
		}
		fmt.Fprintf(w, "  %s (%s)\n", v.Name, v.Default)
		for _, line := range wrap(v.Meaning, 72) {
			fmt.Fprintf(w, "      %s\n", line)
		}
	}
}

// wrap breaks a sentence into lines of at most width bytes where it can.
func wrap(s string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(s) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}

// settings lists the settings that differ from the default, secrets masked, for the log at
// start.
func (c *config) settings() []string {
	var out []string
	for _, s := range c.allSettings() {
		if s.Set {
			out = append(out, s.Name+"="+s.Value)
		}
	}
	return out
}

// allSettings lists every setting with its value in force, secrets masked.
func (c *config) allSettings() []api.Setting {
	var out []api.Setting
	value := reflect.ValueOf(c).Elem()
	for _, v := range variables() {
		text := fmt.Sprint(value.Field(v.field).Interface())
		if list, ok := value.Field(v.field).Interface().([]string); ok {
			text = strings.Join(list, ",")
		}
		if v.secret {
			text = maskURL(text)
		}
		def := reflect.TypeFor[config]().Field(v.field).Tag.Get("envDefault")
		if _, ok := value.Field(v.field).Interface().(time.Duration); ok {
			d, _ := time.ParseDuration(def) // a default of the program's own
			def = d.String()
		}
		out = append(out, api.Setting{Name: v.Name, Value: text, Set: text != def && text != ""})
	}
	return out
}

// maskURL hides the password of a URL, however oddly it is written: everything from the first
// colon after the scheme to the last @, and any password parameter.
func maskURL(raw string) string {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return raw
	}
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		user, _, _ := strings.Cut(rest[:at], ":")
		rest = user + ":***" + rest[at:]
	}
	if query := strings.Index(rest, "?"); query >= 0 {
		rest = rest[:query] + "?***"
	}
	return scheme + "://" + rest
}

// scrub removes the configured passwords from a text, such as an error of a client library that
// quotes a URL.
func (c *config) scrub(text string) string {
	for _, raw := range []string{c.RedisURL, c.ContactsURL, c.DatabaseURL} {
		text = strings.ReplaceAll(text, raw, maskURL(raw))
		password := passwordOf(raw)
		plain, _ := url.PathUnescape(password)
		for _, p := range []string{password, plain} {
			if p != "" {
				text = strings.ReplaceAll(text, p, "***")
			}
		}
	}
	return text
}

// passwordOf is the part of a URL that maskURL hides, as it is written there.
func passwordOf(raw string) string {
	_, rest, _ := strings.Cut(raw, "://")
	at := strings.LastIndex(rest, "@")
	if at < 0 {
		return ""
	}
	_, password, _ := strings.Cut(rest[:at], ":")
	return password
}
