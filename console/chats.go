package console

import (
	"net/http"
	"net/url"

	"fanfare/api"
)

// chats asks for the name of a chat.
func (v *visit) chats() error { return v.find("chats", "chat") }

// member is a member of a chat, and how many messages came after the last one that the member acknowledged.
type member struct {
	api.ChatMember
	Behind int64
}

// chat shows a chat and its members. It shows no text of a message.
func (v *visit) chat() error {
	var d struct {
		api.ChatInfo
		Items []member
		More  string
	}
	name := url.PathEscape(v.r.PathValue("chat"))
	if err := v.ask(http.MethodGet, "/v1/chats/"+name, nil, &d.ChatInfo); err != nil {
		return err
	}
	var list api.ChatMemberList
	if err := v.ask(http.MethodGet, withQuery("/v1/chats/"+name+"/members", v.query("cursor")), nil, &list); err != nil {
		return err
	}
	for _, m := range list.Items {
		d.Items = append(d.Items, member{m, max(0, d.LastID-m.Acked)})
	}
	d.More = more("chats/"+name, url.Values{}, list.Next)
	return v.page("chat", "Chat "+d.ID, refreshEvery, d)
}
