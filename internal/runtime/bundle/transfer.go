package bundle

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	streaming "github.com/containerd/containerd/api/services/streaming/v1"
	transfer "github.com/containerd/containerd/api/services/transfer/v1"
	"github.com/containerd/containerd/api/types"
	transfertypes "github.com/containerd/containerd/api/types/transfer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"berth/internal/lib/run"
)

// snapshotter is the snapshotter into which containerd unpacks images.
const snapshotter = "overlayfs"

// chunk is how many bytes of an archive one message holds.
const chunk = 32 << 10

// importArchive makes containerd import an image archive, OCI or docker, compressed or
// not, and unpack its images. It returns their names. An image that has only a tag gets
// prefix before it.
//
// containerd reads the archive from one stream and sends its progress on another.
func (c *client) importArchive(ctx context.Context, archive io.Reader, prefix string, labels map[string]string) ([]string, error) {
	group := run.NewGroup(c.inNamespace(ctx), c.log)
	defer group.Stop()
	ctx = group.Context()
	if err := c.makeNamespace(ctx); err != nil {
		return nil, err
	}
	streams := streaming.NewStreamingClient(c.conn)
	progress, progressID, err := openStream(ctx, streams)
	if err != nil {
		return nil, err
	}
	data, dataID, err := openStream(ctx, streams)
	if err != nil {
		return nil, err
	}
	source, err := pack(&transfertypes.ImageImportStream{Stream: dataID})
	if err != nil {
		return nil, err
	}
	here := &types.Platform{OS: "linux", Architecture: runtime.GOARCH}
	destination, err := pack(&transfertypes.ImageStore{
		Labels: labels,
		// Archives may leave out the layers of other platforms.
		Platforms: []*types.Platform{here},
		ExtraReferences: []*transfertypes.ImageReference{
			{Name: prefix, IsPrefix: true, AllowOverwrite: true},
		},
		Unpacks: []*transfertypes.UnpackConfiguration{{Platform: here, Snapshotter: snapshotter}},
	})
	if err != nil {
		return nil, err
	}

	// Both goroutines end with the streams, which end with ctx at the latest.
	var names []string
	var readErr error
	saved := make(chan struct{})
	group.Go("archive-progress", func(context.Context) { names = savedNames(progress); close(saved) })
	group.Go("archive-send", func(context.Context) { readErr = send(data, archive) })

	_, err = transfer.NewTransferClient(c.conn).Transfer(ctx, &transfer.TransferRequest{
		Source: source, Destination: destination,
		Options: &transfer.TransferOptions{ProgressStream: progressID},
	})
	if err == nil {
		// containerd closes the stream when it is done: all names have to be read.
		select {
		case <-saved:
		case <-time.After(progressTimeout):
			err = errors.New("containerd did not name the images that it took in")
		}
	}
	group.Stop()
	if readErr != nil {
		return nil, readErr
	}
	if err != nil {
		return nil, unwrapStatus(err)
	}
	return names, nil
}

const progressTimeout = 10 * time.Second

type stream = streaming.Streaming_StreamClient

// openStream opens a stream that containerd then knows by its id.
func openStream(ctx context.Context, c streaming.StreamingClient) (stream, string, error) {
	id := "berth-" + rand.Text()
	s, err := c.Stream(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("open stream to containerd: %w", err)
	}
	hello, err := pack(&streaming.StreamInit{ID: id})
	if err != nil {
		return nil, "", err
	}
	if err := s.Send(hello); err != nil && !errors.Is(err, io.EOF) {
		return nil, "", fmt.Errorf("open stream to containerd: %w", err)
	}
	if _, err := s.Recv(); err != nil { // containerd confirms the stream
		return nil, "", fmt.Errorf("open stream to containerd: %w", err)
	}
	return s, id, nil
}

// send writes r to the stream, as many bytes at a time as containerd has asked for. It
// returns only errors of reading r: the errors of containerd are those of the Transfer call.
func send(s stream, r io.Reader) error {
	defer func() { _ = s.CloseSend() }()
	buf := make([]byte, chunk)
	for window := int64(0); ; {
		for window <= 0 {
			msg, err := s.Recv()
			if err != nil {
				return nil
			}
			var update transfertypes.WindowUpdate
			if unpack(msg, &update) {
				window += int64(update.GetUpdate())
			}
		}
		n, err := r.Read(buf[:min(window, chunk)])
		if n > 0 {
			msg, packErr := pack(&transfertypes.Data{Data: buf[:n]})
			if packErr != nil {
				return packErr
			}
			if s.Send(msg) != nil {
				return nil
			}
			window -= int64(n)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read archive: %w", err)
		}
	}
}

// savedNames reads the stream of progress to its end, and returns the names of the images
// that were saved.
func savedNames(s stream) []string {
	var names []string
	for {
		msg, err := s.Recv()
		if err != nil {
			return names
		}
		var p transfertypes.Progress
		if unpack(msg, &p) && p.GetEvent() == "saved" {
			names = append(names, p.GetName())
		}
	}
}

// pack wraps a message as containerd does: the type's name stands alone, without a
// host before it.
func pack(m proto.Message) (*anypb.Any, error) {
	value, err := proto.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode message to containerd: %w", err)
	}
	return &anypb.Any{TypeUrl: string(m.ProtoReflect().Descriptor().FullName()), Value: value}, nil
}

func unpack(a *anypb.Any, into proto.Message) bool {
	name := string(into.ProtoReflect().Descriptor().FullName())
	url := a.GetTypeUrl()
	return (url == name || strings.HasSuffix(url, "/"+name)) && proto.Unmarshal(a.GetValue(), into) == nil
}
