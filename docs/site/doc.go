// Package site serves the documents of the repository as pages below /docs/: README, guides, runbook, spec and the
// others of menu.go, with a menu, a search and tabs for code in several languages. The pages are made from the same
// Markdown that is read in the repository, and nothing is loaded from other servers.
//
//	menu.go      which documents there are, in which order
//	pages.go     makes all pages, at the first request
//	markdown.go  reads one document: headings, sections for the search, tabs
//	links.go     leads links of the repository to the pages
//	handler.go   answers requests
//	static       the layout, the styles and the scripts
package site
