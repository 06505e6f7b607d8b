package cli

import (
	"testing"
)

func TestVolumeTables(t *testing.T) {
	a := startAgent(t, testRoot, withInventory)
	a.set(nil, runningPod("x", "web", "app"), runningPod("x", "db", "sql"))
	a.wantOutput(t, "get volumes", `
POD          VOLUME   KIND       SOURCE   SIZE     USED     AGE
web-node-1   data     emptyDir   memory   64Mi     1.0Mi    120m
db-node-1    files    hostPath   /srv     <none>   <none>   <none>
`)
	a.wantOutput(t, "get volumes web -o wide -A", `
NAMESPACE   POD          VOLUME   KIND       SOURCE   SIZE   USED    AGE    PATH
x           web-node-1   data     emptyDir   memory   64Mi   1.0Mi   120m   /pods/x/data
`)
	a.wantOutput(t, "get volumes db -o name", "volume/db-node-1/files\n")
}
