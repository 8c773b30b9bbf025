package console

import (
	"net/http"
	"net/url"

	"fanfare/api"
)

func (v *visit) listApps() ([]api.App, error) {
	var list api.AppList
	err := v.ask(http.MethodGet, "/v1/apps", nil, &list)
	return list.Items, err
}

// apps lists the apps.
func (v *visit) apps() error {
	all, err := v.listApps()
	if err != nil {
		return err
	}
	return v.page("apps", "Apps", refreshEvery, all)
}

// probe has the paused apps of a topic try one notification each.
func (v *visit) probe() error {
	if err := v.ask(http.MethodPost, "/v1/apps/"+url.PathEscape(v.r.PathValue("topic"))+"/probe", nil, nil); err != nil {
		return err
	}
	redirect(v.w, "../../apps?done=probed")
	return nil
}
