package console

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"fanfare/api"
)

// webhookPage is how many webhooks a page lists: each is asked for how far it has come.
const webhookPage = "20"

// webhookRow is a webhook in the list. Status is nil while nobody can say how far it has come.
type webhookRow struct {
	api.Webhook
	Status *api.WebhookStatus
}

// webhookForm is the page of the webhooks.
type webhookForm struct {
	Items   []webhookRow
	More    string
	Types   []string // of facts
	Problem *problem
	// The fields as the visitor typed them, if they were refused.
	ID, URL, Max string
	Chosen       map[string]bool
}

// webhooks lists the webhooks, with a form for another one.
func (v *visit) webhooks() error {
	return v.showWebhooks(http.StatusOK, webhookForm{Max: strconv.Itoa(api.DefaultWebhookMax)})
}

func (v *visit) showWebhooks(status int, d webhookForm) error {
	var list api.WebhookList
	query := v.query("cursor")
	query.Set("limit", webhookPage)
	if err := v.ask(http.MethodGet, withQuery("/v1/webhooks", query), nil, &list); err != nil {
		return err
	}
	for _, w := range list.Items {
		row := webhookRow{Webhook: w, Status: &api.WebhookStatus{}}
		switch err := v.ask(http.MethodGet, webhookPath(w.ID), nil, row.Status); {
		case err == nil:
		case asProblem(err).Code == api.CodeNotFound:
			continue // it was deleted meanwhile
		case asProblem(err).Retryable:
			row.Status = nil
		default:
			return err
		}
		d.Items = append(d.Items, row)
	}
	d.More, d.Types = more("webhooks", url.Values{}, list.Next), api.FactTypes
	f := v.frame("Webhooks", d)
	if status == http.StatusOK {
		f.Refresh = refreshEvery
	}
	return v.write(status, "webhooks", f)
}

// webhookPath is the route of a webhook.
func webhookPath(id string) string { return "/v1/webhooks/" + url.PathEscape(id) }

// newSecret is a secret that is shown once.
type newSecret struct {
	ID, Secret   string
	Made         bool      // with the webhook
	Since, Until *api.Time // nothing is missing; the secret before it signs
}

// makeWebhook makes a webhook and shows its secret once. One of the same id is left as it is, also one that somebody else makes now.
func (v *visit) makeWebhook() error {
	of := func(field string) string { return strings.TrimSpace(v.r.PostForm.Get(field)) }
	form := webhookForm{ID: of("id"), URL: of("url"), Max: of("max"), Chosen: map[string]bool{}}
	made, err := v.putNewWebhook(&form)
	if p, ok := errors.AsType[*problem](err); ok && p.Status < http.StatusInternalServerError && p.Code != api.CodeUnauthorized && p.Code != api.CodeForbidden {
		form.Problem = p
		return v.showWebhooks(p.Status, form)
	}
	if err != nil {
		return err
	}
	return v.page("webhook_secret", "New webhook", 0, newSecret{ID: made.ID, Secret: made.Secret, Made: true, Since: &made.Since})
}

// putNewWebhook makes the webhook of a form.
func (v *visit) putNewWebhook(form *webhookForm) (made api.PutWebhook, err error) {
	in := api.WebhookRequest{URL: form.URL, Types: []string{}}
	for _, t := range v.r.PostForm["type"] {
		in.Types, form.Chosen[t] = append(in.Types, t), true
	}
	if form.ID == "" {
		return made, refuse(api.CodeValidation, "type an id")
	}
	if form.Max != "" {
		most, err := strconv.ParseInt(form.Max, 10, 64)
		if err != nil {
			return made, refuse(api.CodeValidation, "the number of facts must be a whole number, such as 100")
		}
		in.Max = &most
	}
	err = v.ask(http.MethodPut, webhookPath(form.ID), in, &made, "If-None-Match: *")
	if err != nil && asProblem(err).Code == api.CodeVersionMismatch {
		err = refuse(api.CodeConflict, "there is a webhook "+form.ID+" already")
	}
	return made, err
}

// webhook shows a webhook and how far it has come.
func (v *visit) webhook() error {
	var w api.WebhookStatus
	if err := v.ask(http.MethodGet, webhookPath(v.r.PathValue("id")), nil, &w); err != nil {
		return err
	}
	return v.page("webhook", "Webhook "+w.ID, refreshEvery, w)
}

// The changes of a webhook, which are the last parts of their pages.
const (
	tryWebhook    = "test"
	replayWebhook = "replay"
	webhookOn     = "on"
	webhookOff    = "off"
	secretWebhook = "secret"
	deleteWebhook = "delete"
)

// question asks whether a webhook is to be changed.
type question struct {
	Title, Effect, Button string
	Danger                bool
	done                  string // names the sentence for the change
}

var webhookQuestions = map[string]question{
	replayWebhook: {"Send facts again?", "The facts after the position are sent, also those that were sent before, with the same ids.", "Send them", false, "replayed"},
	webhookOn:     {"Turn this webhook on?", "Facts are sent from where it has come to, as far as they are kept.", "Turn it on", false, "webhook-on"},
	webhookOff: {"Turn this webhook off?", "Within 3 s nothing more is sent. What happens meanwhile is sent once it is on again, as far as facts are kept.",
		"Turn it off", true, "webhook-off"},
	secretWebhook: {"Make another secret?", "It signs within 3 s, beside the one before it, which signs for 24 h more. The next page shows it, and no other page ever does.",
		"Make a secret", false, ""},
	deleteWebhook: {"Delete this webhook?", "Within 3 s nothing more is sent. Its secrets and its position are gone for good.", "Delete it", true, "webhook-deleted"},
}

// askWebhook asks whether a webhook is to be changed.
func (v *visit) askWebhook() error { return v.drawQuestion(false) }

// drawQuestion asks whether a webhook is to be changed, of which it shows the present version. changed says that this is not the
// version that the visitor saw before, and makes the status 412.
func (v *visit) drawQuestion(changed bool) error {
	d := struct {
		api.WebhookStatus
		question
		Change  string
		Changed bool
	}{Change: v.r.PathValue("change"), Changed: changed}
	var known bool
	if d.question, known = webhookQuestions[d.Change]; !known {
		return refuse(api.CodeNotFound, "there is no such page")
	}
	if err := v.ask(http.MethodGet, webhookPath(v.r.PathValue("id")), nil, &d.WebhookStatus); err != nil {
		return err
	}
	status := http.StatusOK
	if changed {
		status = http.StatusPreconditionFailed
	}
	return v.write(status, "change_webhook", v.frame(d.Title, d))
}

// changeWebhook changes a webhook, or tries it. It is changed only in the version that the visitor saw: if it was changed since, the
// page asks again.
func (v *visit) changeWebhook() error {
	id, change := v.r.PathValue("id"), v.r.PathValue("change")
	if change == tryWebhook {
		return v.tryWebhook(id)
	}
	asked, known := webhookQuestions[change]
	if !known {
		return refuse(api.CodeNotFound, "there is no such page")
	}
	seen, err := v.ifMatch()
	if err != nil {
		return err
	}
	to := "../" + url.PathEscape(id)
	switch change {
	case secretWebhook, replayWebhook: // their routes take no If-Match
		var w api.WebhookStatus
		if err := v.ask(http.MethodGet, webhookPath(id), nil, &w); err != nil {
			return err
		}
		if v.r.PostForm.Get("version") != strconv.FormatInt(w.Version, 10) {
			return v.drawQuestion(true)
		}
		if change == secretWebhook {
			return v.makeSecret(id)
		}
		err = v.replayWebhook(id)
	case deleteWebhook:
		to = "../../webhooks"
		err = v.ask(http.MethodDelete, webhookPath(id), nil, nil, seen)
	default:
		err = v.turnWebhook(id, api.WebhookState(change), seen)
	}
	switch {
	case err == nil:
	case asProblem(err).Code == api.CodeVersionMismatch:
		return v.drawQuestion(true)
	default:
		return err
	}
	redirect(v.w, to+"?done="+asked.done)
	return nil
}

// turnWebhook turns a webhook on or off, and changes nothing else of it.
func (v *visit) turnWebhook(id string, to api.WebhookState, seen string) error {
	var w api.WebhookStatus
	if err := v.ask(http.MethodGet, webhookPath(id), nil, &w); err != nil {
		return err
	}
	in := api.WebhookRequest{URL: w.URL, Types: w.Types, Max: &w.Max, State: to}
	return v.ask(http.MethodPut, webhookPath(id), in, nil, seen)
}

// tryWebhook sends a test to a webhook, and shows what its receiver answered.
func (v *visit) tryWebhook(id string) error {
	d := struct {
		ID     string
		Answer api.WebhookAnswer
	}{ID: id}
	if err := v.ask(http.MethodPost, webhookPath(id)+"/test", nil, &d.Answer); err != nil {
		return err
	}
	return v.page("webhook_answer", "Test of a webhook", 0, d)
}

// makeSecret gives a webhook another secret, and shows it once.
func (v *visit) makeSecret(id string) error {
	var made api.NewSecret
	if err := v.ask(http.MethodPost, webhookPath(id)+"/secrets", nil, &made); err != nil {
		return err
	}
	return v.page("webhook_secret", "New secret", 0, newSecret{ID: id, Secret: made.Secret, Until: made.OldSecretUntil})
}

// replayWebhook sends the facts again after the position that the visitor has chosen. "" is before the oldest fact, which nobody
// chooses by leaving a field empty.
func (v *visit) replayWebhook(id string) error {
	after := strings.TrimSpace(v.r.PostForm.Get("after"))
	switch from := v.r.PostForm.Get("from"); {
	case from == "now":
		after = api.FactsNow
	case from == "oldest":
		after = ""
	case after == "":
		return refuse(api.CodeValidation, "type a position")
	}
	return v.ask(http.MethodPost, webhookPath(id)+"/replay", api.WebhookReplayRequest{After: after}, nil)
}
