package volumes

import (
	"testing"

	"berth/internal/cli/clitest"
)

func TestVolumeTables(t *testing.T) {
	a := clitest.StartAgent(t, root, clitest.WithInventory)
	a.Set(nil, clitest.RunningPod("x", "web", "app"), clitest.RunningPod("x", "db", "sql"))
	a.WantOutput(t, "get volumes", `
POD          VOLUME   KIND       SOURCE   SIZE     USED     AGE
web-node-1   data     emptyDir   memory   64Mi     1.0Mi    120m
db-node-1    files    hostPath   /srv     <none>   <none>   <none>
`)
	a.WantOutput(t, "get volumes web -o wide -A", `
NAMESPACE   POD          VOLUME   KIND       SOURCE   SIZE   USED    AGE    PATH
x           web-node-1   data     emptyDir   memory   64Mi   1.0Mi   120m   /pods/x/data
`)
	a.WantOutput(t, "get volumes db -o name", "volume/db-node-1/files\n")
}
