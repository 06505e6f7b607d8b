//go:build real

package bundle

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"

	leases "github.com/containerd/containerd/api/services/leases/v1"
	"google.golang.org/grpc/metadata"

	"berth/internal/lib/run"
	"berth/internal/runtime/ociarchive"
)

// containerd collects what belongs to no namespace that it knows, and the streams of an
// import belong to one that the first image of a machine has yet to bring about.
func TestTheFirstImportIsNotCollected(t *testing.T) {
	// given a containerd that collects garbage all the time
	m := newMachine(t)
	a := m.startAgent()
	receive(t, "up", a.up)
	c, err := newClient(a.rt.paths.socket, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	group := run.NewGroup(metadata.AppendToOutgoingContext(t.Context(), "containerd-namespace", "busy"), c.log)
	defer group.Stop()
	group.Go("collections", func(ctx context.Context) {
		all := leases.NewLeasesClient(c.conn)
		for ctx.Err() == nil {
			if _, err := all.Create(ctx, &leases.CreateRequest{ID: "short"}); err == nil {
				_, _ = all.Delete(ctx, &leases.DeleteRequest{ID: "short", Sync: true})
			}
		}
	})

	// when images come to namespaces in which there was none, then they stay
	archive := m.archive("localhost/first:1", ociarchive.Write)
	for i := range 10 {
		c.namespace = fmt.Sprint("fresh-", i)
		if _, err := c.importArchive(t.Context(), bytes.NewReader(archive), "localhost/first", nil); err != nil {
			t.Fatalf("import %d: %v", i, err)
		}
	}
}
