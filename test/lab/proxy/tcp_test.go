package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// echo sends back what each connection sends.
func echo(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return listener
}

func newTCP(t *testing.T) *TCP {
	t.Helper()
	server := echo(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := NewTCP(listener, (&net.Dialer{}).DialContext, server.Addr().String())
	t.Cleanup(p.Close)
	return p
}

// say sends a word, and returns the answer.
func say(t *testing.T, conn net.Conn, word string, within time.Duration) (string, error) {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	answer := make([]byte, len(word))
	_, err := io.ReadFull(conn, answer)
	return string(answer), err
}

func connect(t *testing.T, p *TCP) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if answer, err := say(t, conn, "hello", 5*time.Second); answer != "hello" || err != nil {
		t.Fatalf("the answer is %q (%v)", answer, err)
	}
	return conn
}

func TestConnectionsAreCut(t *testing.T) {
	p := newTCP(t)
	conn := connect(t, p)

	p.Cut()

	if _, err := say(t, conn, "still?", 5*time.Second); err == nil {
		t.Error("a connection that was cut still works")
	}
	connect(t, p)
}

func TestLostConnectionsStayOpenAndAreSilent(t *testing.T) {
	p := newTCP(t)
	conn := connect(t, p)

	p.Lose()

	if _, err := say(t, conn, "still?", 100*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a lost connection answers: %v", err)
	}
	connect(t, p)
}
