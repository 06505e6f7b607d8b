package cli

import (
	"testing"
)

func TestPodTables(t *testing.T) {
	a := startAgent(t, testRoot, withInventory)
	a.set(nil, runningPod("x", "web", "app"), runningPod("x", "db", "sql"))
	t.Setenv("COLUMNS", "80")
	a.wantOutput(t, "get pods -o jsonpath={.items[*].metadata.name}", "db-node-1 web-node-1")
	a.wantOutput(t, "get pods web -o jsonpath={.status.podIP}", "10.0.0.7")
	a.wantOutput(t, "top pods", `
NAME         CPU(cores)   MEMORY(bytes)
db-node-1    1m           100Mi
web-node-1   101m         72Mi
`)
	a.wantOutput(t, "top pods --sort-by cpu -A", `
NAMESPACE   NAME         CPU(cores)   MEMORY(bytes)
x           web-node-1   101m         72Mi
x           db-node-1    1m           100Mi
`)
	a.wantOutput(t, "top pods --sort-by memory --containers", `
POD          NAME   CPU(cores)   MEMORY(bytes)
web-node-1   app    100m         64Mi
web-node-1   side   1m           8Mi
db-node-1    sql    <unknown>    <unknown>
`)
	a.wantOutput(t, "top pods db", `
NAME        CPU(cores)   MEMORY(bytes)
db-node-1   1m           100Mi
`)
	a.wantOutput(t, "waterfall web", `
PHASE       START        TOOK
queue        +0ms       1.00s  █████████████████████████████████████████████████
total                   1.00s
`)
}
