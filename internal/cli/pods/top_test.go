package pods

import (
	"testing"

	"berth/internal/cli/clitest"
)

func TestPodTables(t *testing.T) {
	a := clitest.StartAgent(t, root, clitest.WithInventory)
	a.Set(nil, clitest.RunningPod("x", "web", "app"), clitest.RunningPod("x", "db", "sql"))
	t.Setenv("COLUMNS", "80")
	a.WantOutput(t, "get pods -o jsonpath={.items[*].metadata.name}", "db-node-1 web-node-1")
	a.WantOutput(t, "get pods web -o jsonpath={.status.podIP}", "10.0.0.7")
	a.WantOutput(t, "top pods", `
NAME         CPU(cores)   MEMORY(bytes)
db-node-1    1m           100Mi
web-node-1   101m         72Mi
`)
	a.WantOutput(t, "top pods --sort-by cpu -A", `
NAMESPACE   NAME         CPU(cores)   MEMORY(bytes)
x           web-node-1   101m         72Mi
x           db-node-1    1m           100Mi
`)
	a.WantOutput(t, "top pods --sort-by memory --containers", `
POD          NAME   CPU(cores)   MEMORY(bytes)
web-node-1   app    100m         64Mi
web-node-1   side   1m           8Mi
db-node-1    sql    <unknown>    <unknown>
`)
	a.WantOutput(t, "top pods db", `
NAME        CPU(cores)   MEMORY(bytes)
db-node-1   1m           100Mi
`)
	a.WantOutput(t, "waterfall web", `
PHASE       START        TOOK
queue        +0ms       1.00s  █████████████████████████████████████████████████
total                   1.00s
`)
}
