package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"fanfare/api"
)

// draft is an event to one user that a visitor writes in a form.
type draft struct {
	Type, User, Title, Body, Data string
	// Preview is what the event would send, if the visitor asked for that.
	Preview *api.EventPreview
	// Problem is why the event was refused.
	Problem *problem
}

// askSend shows the form of an event. The link that led here may have filled in its type or its user.
func (v *visit) askSend() error {
	query := v.r.URL.Query()
	return v.drawDraft(http.StatusOK, &draft{Type: query.Get("type"), User: query.Get("user")})
}

func (v *visit) drawDraft(status int, d *draft) error {
	return v.write(status, "send", v.frame("Send an event", d))
}

// sendEvent sends the event of the form and shows its report, or only shows what the event would send. If it is
// refused, the form comes back as it was written, with the reason.
func (v *visit) sendEvent() error {
	of := func(field string) string { return strings.TrimSpace(v.r.PostForm.Get(field)) }
	d := &draft{Type: of("type"), User: of("user"), Title: of("title"), Body: of("body"), Data: of("data")}
	id, err := v.postDraft(d, of("do") == "show")
	switch p := asProblem(err); {
	case err != nil && (p.Status == http.StatusUnauthorized || p.Status >= http.StatusInternalServerError):
		return err
	case err != nil:
		d.Problem = p
		return v.drawDraft(p.Status, d)
	case id == "":
		return v.drawDraft(http.StatusOK, d)
	}
	v.log("events.send", id, v.keyID())
	redirect(v.w, "events/"+url.PathEscape(id)+"?done=sent")
	return nil
}

// postDraft posts the event and returns its id, or fills in its preview and returns "".
func (v *visit) postDraft(d *draft, preview bool) (id string, err error) {
	in := api.EventRequest{Type: d.Type, Audience: api.Audience{Users: []string{d.User}}}
	if d.Title != "" || d.Body != "" {
		in.Alert = &api.Alert{Title: d.Title, Body: d.Body}
	}
	if d.Data != "" {
		if err := json.Unmarshal([]byte(d.Data), &in.Data); err != nil {
			return "", refuse(api.CodeValidation, `data must be a JSON object whose values are strings, such as {"album": "Summer"}`)
		}
	}
	if preview {
		return "", v.ask(http.MethodPost, "/v1/events?dry_run=true", in, &d.Preview)
	}
	var made api.EventAccepted
	err = v.ask(http.MethodPost, "/v1/events", in, &made)
	return made.ID, err
}
