// Package console is the operators' console under /console/: pages that the server draws from the
// answers of the JSON routes, and of nothing else. A page calls the routes' own handler in this process,
// with the rights of the API key to which the visitor's session belongs. So limits, checks and refusals
// are those of the routes, and whatever a click does, a call with curl can do, too.
//
// pages.go lists the pages. session.go lets visitors in and out, ask.go calls the routes, and view.go
// writes pages. The templates, one style sheet and one script are embedded; no page loads anything from
// elsewhere. Without the script every page works, but does not refresh itself.
//
// Links, forms and redirects are relative, so that a proxy may serve the console below any path.
package console
