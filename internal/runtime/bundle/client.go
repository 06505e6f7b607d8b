package bundle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	images "github.com/containerd/containerd/api/services/images/v1"
	namespaces "github.com/containerd/containerd/api/services/namespaces/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"berth/internal/lib/run"
)

// criNamespace is the containerd namespace of CRI.
const criNamespace = "k8s.io"

// client is a client of containerd's own API, for calls that CRI does not have: the import
// of image archives, and the progress of pulls.
type client struct {
	conn      *grpc.ClientConn
	images    images.ImagesClient
	namespace string
	log       *slog.Logger
	hasImage  func(ctx context.Context, name string) (bool, error) // as CRI knows it; needed by awaitImages
}

func newClient(socket string, log *slog.Logger) (*client, error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("connect to containerd at %s: %w", socket, err)
	}
	return &client{conn: conn, images: images.NewImagesClient(conn), namespace: criNamespace, log: log}, nil
}

func (c *client) close() { _ = c.conn.Close() }

func (c *client) inNamespace(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "containerd-namespace", c.namespace)
}

// makeNamespace creates the namespace of CRI if it does not exist. containerd creates it by
// itself with the first object in it, but would collect a stream that came before as garbage.
func (c *client) makeNamespace(ctx context.Context) error {
	_, err := namespaces.NewNamespacesClient(c.conn).Create(ctx, &namespaces.CreateNamespaceRequest{Namespace: &namespaces.Namespace{Name: c.namespace}})
	if err != nil && status.Code(err) != codes.AlreadyExists {
		return fmt.Errorf("make namespace %s: %w", c.namespace, unwrapStatus(err))
	}
	return nil
}

// labels returns the labels of an image, and whether the image exists.
func (c *client) labels(ctx context.Context, name string) (map[string]string, bool, error) {
	resp, err := c.images.Get(c.inNamespace(ctx), &images.GetImageRequest{Name: name})
	if status.Code(err) == codes.NotFound {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("look up image %s: %w", name, unwrapStatus(err))
	}
	return resp.GetImage().GetLabels(), true, nil
}

// present reports whether all of the images exist.
func (c *client) present(ctx context.Context, names []string) (bool, error) {
	for _, name := range names {
		if _, ok, err := c.labels(ctx, name); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

const (
	imagePollInterval = 50 * time.Millisecond
	imageTimeout      = 30 * time.Second
)

// awaitImages waits until the CRI plugin lists the images. It learns of them by an event.
func (c *client) awaitImages(ctx context.Context, names []string) error {
	ctx, cancel := context.WithTimeout(ctx, imageTimeout)
	defer cancel()
	for _, name := range names {
		for {
			knows, err := c.hasImage(ctx, name)
			if err != nil {
				return fmt.Errorf("ask CRI for image %s: %w", name, err)
			}
			if knows {
				break
			}
			if err := run.Sleep(ctx, imagePollInterval); err != nil {
				return fmt.Errorf("wait until CRI knows image %s: %w", name, err)
			}
		}
	}
	return nil
}

// unwrapStatus returns an error with containerd's message only, without gRPC's wrapping. An
// error that means that containerd is not there is returned as it is.
func unwrapStatus(err error) error {
	if s, ok := status.FromError(err); ok && !isUnavailable(err) && s.Message() != "" {
		return errors.New(s.Message())
	}
	return err
}

// isUnavailable reports whether an error means that containerd is away. Other errors are its
// answers.
func isUnavailable(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return true
	default:
		return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	}
}
