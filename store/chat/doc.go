// Package chat is group chat for people who come and go.
package chat
