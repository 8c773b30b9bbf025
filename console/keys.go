package console

import (
	"errors"
	"net/http"
	"net/url"

	"fanfare/api"
)

// keyForm is the page of the API keys.
type keyForm struct {
	Keys    []api.Key
	Next    string
	Scopes  []api.Scope
	Problem *problem
	// What the visitor typed, if the route refused it.
	Name, Expires string
	Chosen        map[api.Scope]bool
}

// keys lists the API keys, with a form for another one.
func (v *visit) keys() error { return v.showKeys(http.StatusOK, keyForm{}) }

func (v *visit) showKeys(status int, d keyForm) error {
	var list api.KeyList
	query := url.Values{"limit": {"200"}}
	if cursor := v.r.URL.Query().Get("cursor"); cursor != "" {
		query.Set("cursor", cursor)
	}
	if err := v.ask(http.MethodGet, "/v1/keys?"+query.Encode(), nil, &list); err != nil {
		return err
	}
	d.Keys, d.Next, d.Scopes = list.Items, list.Next, api.Scopes
	return v.write(status, "keys", v.frame("Keys", d))
}

// makeKey makes an API key and shows it once.
func (v *visit) makeKey() error {
	form := keyForm{Name: v.r.PostForm.Get("name"), Expires: v.r.PostForm.Get("expires"), Chosen: map[api.Scope]bool{}}
	in := api.KeyRequest{Name: form.Name, Scopes: []api.Scope{}}
	for _, scope := range v.r.PostForm["scope"] {
		in.Scopes = append(in.Scopes, api.Scope(scope))
		form.Chosen[api.Scope(scope)] = true
	}
	if form.Expires != "" {
		at, err := api.ParseTime(form.Expires + "T00:00:00Z")
		if err != nil {
			form.Problem = refuse(api.CodeValidation, "expires must be a date such as 2027-01-31")
			return v.showKeys(form.Problem.Status, form)
		}
		in.ExpiresAt = &at
	}
	var made api.NewKey
	err := v.ask(http.MethodPost, "/v1/keys", in, &made)
	if p, ok := errors.AsType[*problem](err); ok && p.Code == api.CodeValidation {
		form.Problem = p
		return v.showKeys(p.Status, form)
	}
	if err != nil {
		return err
	}
	return v.page("key", "New key", 0, made)
}

// askRevoke asks whether a key is to end.
func (v *visit) askRevoke() error {
	key, err := v.findKey(v.r.PathValue("id"))
	if err != nil {
		return err
	}
	return v.page("revoke", "Revoke a key", 0, map[string]any{"Key": key, "Own": v.key != nil && v.key.ID == key.ID})
}

// findKey finds a key in the list of keys.
func (v *visit) findKey(id string) (*api.Key, error) {
	query := url.Values{"limit": {"500"}}
	for {
		var list api.KeyList
		if err := v.ask(http.MethodGet, "/v1/keys?"+query.Encode(), nil, &list); err != nil {
			return nil, err
		}
		for i := range list.Items {
			if list.Items[i].ID == id {
				return &list.Items[i], nil
			}
		}
		if list.Next == "" {
			return nil, refuse(api.CodeNotFound, "there is no such key")
		}
		query.Set("cursor", list.Next)
	}
}

// revoke ends a key.
func (v *visit) revoke() error {
	if err := v.ask(http.MethodDelete, "/v1/keys/"+url.PathEscape(v.r.PathValue("id")), nil, nil); err != nil {
		return err
	}
	redirect(v.w, "../../keys?done=revoked")
	return nil
}

// opens says what each scope opens.
var opens = map[api.Scope]string{
	api.ScopePush:       "events, devices, preferences, topics, broadcasts",
	api.ScopePushAll:    "with push also events to all users",
	api.ScopeContacts:   "contacts, uploads, recent contacts",
	api.ScopeChat:       "chats and messages of all users",
	api.ScopeSales:      "sales, stock, orders",
	api.ScopeSalesBuy:   "reserve, confirm and release units",
	api.ScopeLocks:      "locks",
	api.ScopeJobs:       "enqueue, read and cancel jobs; queues and schedules",
	api.ScopeJobsWork:   "claim jobs and report results",
	api.ScopeValues:     "values and counters",
	api.ScopeValuesRead: "read values and counters",
	api.ScopeTokens:     "user tokens: acts as any user",
	api.ScopeUsersErase: "erase users",
	api.ScopeOpsRead:    "this console and the figures, to look at",
	api.ScopeOps:        "also retry, delete, probe, cancel and pause",
	api.ScopeAdmin:      "everything",
}
