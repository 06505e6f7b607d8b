package nodeapi

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	authenticationapi "k8s.io/api/authentication/v1"
	authorizationapi "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/util/flowcontrol"
)

const (
	maxAnswers    = 4096 // size of a cache
	reviewTimeout = 10 * time.Second
	maxReviews    = 16 // at a time
	maxTokenBytes = 16 << 10
	// unknownTTL is how long the answer to an unknown token is cached: short, because the token
	// may become valid.
	unknownTTL = 10 * time.Second

	reviewBurst  = 3 // burst of an address, in seconds of its rate
	maxAddresses = 1024
	addressTTL   = time.Minute
)

// reviewLimiter bounds the token and access reviews that clients cause at the API server.
type reviewLimiter struct {
	perSecond int // for one address
	slots     chan struct{}
	byAddress *cache.LRUExpireCache
}

func newReviewLimiter(perSecond int) *reviewLimiter {
	return &reviewLimiter{perSecond: perSecond, slots: make(chan struct{}, maxReviews), byAddress: cache.NewLRUExpireCache(maxAddresses)}
}

// do calls call, which makes a review, unless the address of the client has caused too many.
func (q *reviewLimiter) do(ctx context.Context, from netip.Addr, call func(context.Context) error) error {
	limiter, ok := q.byAddress.Get(from)
	if !ok {
		// Two concurrent requests may make a limiter each, which allows a few more reviews.
		limiter = flowcontrol.NewTokenBucketRateLimiter(float32(q.perSecond), q.perSecond*reviewBurst)
		q.byAddress.Add(from, limiter, addressTTL)
	}
	if l, isLimiter := limiter.(flowcontrol.RateLimiter); !isLimiter || !l.TryAccept() {
		return problemf(http.StatusTooManyRequests, "too many requests that the cluster has to be asked about: try again later")
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	select {
	case q.slots <- struct{}{}:
		defer func() { <-q.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return call(ctx)
}

// tokens asks the cluster which user a token belongs to, and caches the answers. It keeps no
// token, only its hash.
type tokens struct {
	client  authenticationv1.TokenReviewInterface
	ttl     time.Duration
	answers *cache.LRUExpireCache // of type user; nil for an unknown token
	limiter *reviewLimiter
}

func newTokens(client authenticationv1.TokenReviewInterface, ttl time.Duration, limiter *reviewLimiter) *tokens {
	return &tokens{client: client, ttl: ttl, answers: cache.NewLRUExpireCache(maxAnswers), limiter: limiter}
}

// bearer returns the token in an Authorization header.
func bearer(header string) (string, bool) {
	scheme, token, _ := strings.Cut(strings.TrimSpace(header), " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "Bearer") && token != "" && len(token) <= maxTokenBytes
}

var errUnknownToken = errors.New("the token is not valid")

func (t *tokens) user(ctx context.Context, token string, from netip.Addr) (user, error) {
	key := sha256.Sum256([]byte(token))
	if answer, ok := t.answers.Get(key); ok {
		if u, known := answer.(user); known {
			return u, nil
		}
		return user{}, errUnknownToken
	}
	var review *authenticationapi.TokenReview
	err := t.limiter.do(ctx, from, func(ctx context.Context) (err error) {
		review, err = t.client.Create(ctx, &authenticationapi.TokenReview{Spec: authenticationapi.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return user{}, fmt.Errorf("ask the cluster whose a token is: %w", err)
	}
	if !review.Status.Authenticated || review.Status.User.Username == "" {
		t.answers.Add(key, nil, min(t.ttl, unknownTTL))
		return user{}, errUnknownToken
	}
	is := review.Status.User
	u := user{Name: is.Username, UID: is.UID, Groups: is.Groups, Extra: map[string][]string{}}
	if !slices.Contains(u.Groups, groupAuthenticated) {
		u.Groups = append(slices.Clone(u.Groups), groupAuthenticated)
	}
	for k, v := range is.Extra {
		u.Extra[k] = v
	}
	t.answers.Add(key, u, t.ttl)
	return u, nil
}

// rights asks the cluster what users may do, and caches the answers.
type rights struct {
	client          authorizationv1.SubjectAccessReviewInterface
	allowed, denied time.Duration
	answers         *cache.LRUExpireCache // of type bool
	limiter         *reviewLimiter
}

func newRights(client authorizationv1.SubjectAccessReviewInterface, allowed, denied time.Duration, limiter *reviewLimiter) *rights {
	return &rights{client: client, allowed: allowed, denied: denied, answers: cache.NewLRUExpireCache(maxAnswers), limiter: limiter}
}

// may reports whether a user has the right to a verb on a subresource of a node.
func (r *rights) may(ctx context.Context, u user, verb, node, subresource string, from netip.Addr) (bool, error) {
	spec := authorizationapi.SubjectAccessReviewSpec{
		User: u.Name, UID: u.UID, Groups: u.Groups, Extra: map[string]authorizationapi.ExtraValue{},
		ResourceAttributes: &authorizationapi.ResourceAttributes{Verb: verb, Version: "v1", Resource: "nodes", Subresource: subresource, Name: node},
	}
	for k, v := range u.Extra {
		spec.Extra[k] = v
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return false, fmt.Errorf("ask the cluster who may do what: %w", err)
	}
	key := sha256.Sum256(text)
	if answer, ok := r.answers.Get(key); ok {
		may, isBool := answer.(bool)
		return isBool && may, nil
	}
	var review *authorizationapi.SubjectAccessReview
	err = r.limiter.do(ctx, from, func(ctx context.Context) (err error) {
		review, err = r.client.Create(ctx, &authorizationapi.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return false, fmt.Errorf("ask the cluster who may do what: %w", err)
	}
	ttl := r.denied
	may := review.Status.Allowed && !review.Status.Denied
	if may {
		ttl = r.allowed
	}
	r.answers.Add(key, may, ttl)
	return may, nil
}
