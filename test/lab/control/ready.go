package control

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// requestTimeout is for one question. The parts are slow to answer while they start.
const requestTimeout = 3 * time.Second

// prober asks the parts over HTTP whether they are ready.
type prober struct{ client *http.Client }

func newProber(config *rest.Config) (*prober, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	return &prober{client: client}, nil
}

// check returns nil if all URLs answer that all is well.
func (p *prober) check(ctx context.Context, urls []string) error {
	for _, url := range urls {
		if err := p.get(ctx, url); err != nil {
			return err
		}
	}
	return nil
}

func (p *prober) get(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %s", url, answer.Status, text)
	}
	return err
}

func (p *prober) close() { utilnet.CloseIdleConnectionsFor(p.client.Transport) }
