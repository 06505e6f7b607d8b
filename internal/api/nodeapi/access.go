package nodeapi

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
)

// Access configures how clients are authenticated and authorized.
type Access struct {
	ClientCA  string // a file, read again when it changes; empty: no certificates
	Anonymous bool   // a client without credentials is system:anonymous

	// Tokens asks the cluster which user a token belongs to. Nil: tokens are not accepted.
	Tokens   authenticationv1.TokenReviewInterface
	TokenTTL time.Duration // how long an answer of Tokens is cached

	// Reviews asks the cluster what a user may do. Nil: each authenticated user may do everything.
	Reviews               authorizationv1.SubjectAccessReviewInterface
	AllowedTTL, DeniedTTL time.Duration // how long an answer of Reviews is cached
}

// enabled reports whether clients can be authenticated in any way.
func (a Access) enabled() bool { return a.ClientCA != "" || a.Tokens != nil || a.Anonymous }

// access authenticates and authorizes requests.
type access struct {
	node      string
	anonymous bool
	clients   *clientCA // nil: certificates are not accepted
	tokens    *tokens   // nil: tokens are not accepted
	rights    *rights   // nil: each authenticated user may do everything
	log       *slog.Logger
}

func newAccess(c Access, node string, limits Limits, log *slog.Logger) (*access, error) {
	a := &access{node: node, anonymous: c.Anonymous, log: log}
	if c.ClientCA != "" {
		var err error
		if a.clients, err = newClientCA(c.ClientCA, log); err != nil {
			return nil, err
		}
	}
	// A client that sends a hundred tokens a second must not keep the node from its own
	// requests.
	reviews := newReviewLimiter(limits.Reviews)
	if c.Tokens != nil {
		if c.TokenTTL <= 0 {
			return nil, fmt.Errorf("node API: the answer to a token can't be good for %v", c.TokenTTL)
		}
		a.tokens = newTokens(c.Tokens, c.TokenTTL, reviews)
	}
	if c.Reviews != nil {
		if c.AllowedTTL <= 0 || c.DeniedTTL <= 0 {
			return nil, errors.New("node API: AllowedTTL and DeniedTTL are needed with Reviews")
		}
		a.rights = newRights(c.Reviews, c.AllowedTTL, c.DeniedTTL, reviews)
	}
	return a, nil
}

// user is the authenticated user of a request.
type user struct {
	Name   string
	UID    string
	Groups []string
	Extra  map[string][]string
}

const (
	groupAuthenticated   = "system:authenticated"
	groupUnauthenticated = "system:unauthenticated"
	anonymousUser        = "system:anonymous"
	localUser            = "local" // of the local socket, which needs no authorization
	authorizationKey     = "Authorization"
)

type userKey struct{}

// userOf returns the authenticated user of the request of ctx.
func userOf(ctx context.Context) user {
	if u, ok := ctx.Value(userKey{}).(user); ok {
		return u
	}
	return user{Name: localUser}
}

// authenticated passes requests of authenticated users on to next, and refuses all others.
func (a *access) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, err := a.identify(r)
		if err != nil {
			var p *problem
			if errors.As(err, &p) {
				fail(w, err)
				return
			}
			a.log.Debug("a request was refused", "from", r.RemoteAddr, "err", err)
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		// The runtime, to which streams are proxied, must not see the token.
		r.Header.Del(authorizationKey)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, u)))
	})
}

var errNoCredentials = errors.New("neither a certificate nor a token was shown")

// identify returns the user of a request: by certificate, or else by token. A request with
// invalid credentials is an error, and not anonymous.
func (a *access) identify(r *http.Request) (user, error) {
	var refused error
	if a.clients != nil && r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		u, err := a.clients.user(r.TLS.PeerCertificates)
		if err == nil {
			return u, nil
		}
		refused = err
	}
	if token, ok := bearer(r.Header.Get(authorizationKey)); ok && a.tokens != nil {
		u, err := a.tokens.user(r.Context(), token, addressOf(r.RemoteAddr))
		if err == nil {
			return u, nil
		}
		refused = err
	}
	switch {
	case refused != nil:
		return user{}, refused
	case a.anonymous:
		return user{Name: anonymousUser, Groups: []string{groupUnauthenticated}}, nil
	}
	return user{}, errNoCredentials
}

// authorized passes requests of users with the right that a route needs on to next.
func (a *access) authorized(needs route, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		verb := needs.verb(r.Method)
		if verb == "" {
			fail(w, problemf(http.StatusMethodNotAllowed, "405: Method Not Allowed"))
			return
		}
		u := userOf(r.Context())
		if a.rights == nil {
			next(w, r)
			return
		}
		for _, subresource := range needs.needs {
			may, err := a.rights.may(r.Context(), u, verb, a.node, subresource, addressOf(r.RemoteAddr))
			var p *problem
			switch {
			case errors.As(err, &p):
				fail(w, err)
				return
			case err != nil:
				a.log.Debug("the cluster did not say who may do what", "user", u.Name, "err", err)
				fail(w, problemf(http.StatusInternalServerError, "Authorization error (user=%s, verb=%s, resource=nodes, subresource=%s)", u.Name, verb, subresource))
				return
			case may:
				next(w, r)
				return
			}
		}
		fail(w, problemf(http.StatusForbidden, "Forbidden (user=%s, verb=%s, resource=nodes, subresource(s)=%v)", u.Name, verb, needs.needs))
	}
}

// authorities returns the CAs of client certificates, nil if there are none.
func (a *access) authorities() *x509.CertPool {
	if a.clients == nil {
		return nil
	}
	return a.clients.authorities()
}
