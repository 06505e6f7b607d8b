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
)

// criNamespace is where containerd keeps what belongs to CRI.
const criNamespace = "k8s.io"

// client speaks containerd's own API, for what CRI has no words for: taking in
// images from a file.
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

// makeNamespace makes it if it is not there. containerd makes it by itself, with the first
// thing in it; what comes before, such as a stream, it takes for garbage.
func (c *client) makeNamespace(ctx context.Context) error {
	_, err := namespaces.NewNamespacesClient(c.conn).Create(ctx, &namespaces.CreateNamespaceRequest{Namespace: &namespaces.Namespace{Name: c.namespace}})
	if err != nil && status.Code(err) != codes.AlreadyExists {
		return fmt.Errorf("make namespace %s: %w", c.namespace, unwrapStatus(err))
	}
	return nil
}

// labels returns the labels of an image, and whether it is there.
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

// present tells whether all of the images are there.
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

// awaitImages returns when CRI knows the images: it hears of them by an event.
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
			if err := wait(ctx, imagePollInterval); err != nil {
				return fmt.Errorf("wait until CRI knows image %s: %w", name, err)
			}
		}
	}
	return nil
}

// unwrapStatus takes the wrapping of the transport off an error that containerd sent. One
// that says that containerd is not there keeps it.
func unwrapStatus(err error) error {
	if s, ok := status.FromError(err); ok && !isUnavailable(err) && s.Message() != "" {
		return errors.New(s.Message())
	}
	return err
}

// isUnavailable tells a runtime that is away from one that refused.
func isUnavailable(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return true
	default:
		return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	}
}
