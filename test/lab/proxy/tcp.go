// Package proxy stands between clients and a server, and does to what they say what
// networks and servers do when things go wrong. Left alone, it passes all on.
package proxy

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
)

// Dial connects with the server.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// TCP passes connections on.
type TCP struct {
	listener net.Listener
	dial     Dial
	server   string
	cancel   context.CancelFunc
	done     sync.WaitGroup

	mu    sync.Mutex
	pairs map[*pair]bool
}

// pair is the connection of a client, and ours with the server.
type pair struct {
	client, server net.Conn
	lost           atomic.Bool // nothing that comes in goes out
}

func (c *pair) close() {
	c.client.Close()
	c.server.Close()
}

// NewTCP passes what comes to listener on to server, until it is closed.
func NewTCP(listener net.Listener, dial Dial, server string) *TCP {
	ctx, cancel := context.WithCancel(context.Background())
	p := &TCP{listener: listener, dial: dial, server: server, cancel: cancel, pairs: map[*pair]bool{}}
	p.done.Go(func() { p.accept(ctx) })
	return p
}

// Close ends all connections, and takes no more.
func (p *TCP) Close() {
	p.cancel()
	p.listener.Close()
	p.Cut()
	p.done.Wait()
}

// Address is where clients find the proxy.
func (p *TCP) Address() string { return p.listener.Addr().String() }

// Cut closes all connections that there are. New ones work.
func (p *TCP) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		c.close()
	}
}

// Lose drops all packets of the present connections and closes none, as a NAT does that has
// forgotten them. New connections work.
func (p *TCP) Lose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		c.lost.Store(true)
	}
}

func (p *TCP) accept(ctx context.Context) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // it is closed
		}
		p.done.Go(func() { p.serve(ctx, client) })
	}
}

func (p *TCP) serve(ctx context.Context, client net.Conn) {
	defer client.Close()
	server, err := p.dial(ctx, "tcp", p.server)
	if err != nil {
		return // which the client notices
	}
	c := &pair{client: client, server: server}
	defer c.close()
	if !p.keep(ctx, c) {
		return
	}
	defer p.drop(c)
	var ways sync.WaitGroup
	ways.Go(func() { c.pass(client, server) })
	ways.Go(func() { c.pass(server, client) })
	ways.Wait()
}

// keep records a pair of connections, unless the proxy is closed.
func (p *TCP) keep(ctx context.Context, c *pair) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	p.pairs[c] = true
	return true
}

func (p *TCP) drop(c *pair) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pairs, c)
}

// pass copies until one side ends. TLS has its own farewell, so neither half of a
// connection has to outlive the other.
func (c *pair) pass(to, from net.Conn) {
	defer func() {
		if !c.lost.Load() {
			c.close()
		}
	}()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !c.lost.Load() {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
