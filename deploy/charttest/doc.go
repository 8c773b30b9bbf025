// Package charttest renders the chart for Helm as Helm does, and compares it with the base for kustomize. It is a
// module of its own, so that fanfare does not depend on Helm. `.ci/chart.sh` runs it.
package charttest
