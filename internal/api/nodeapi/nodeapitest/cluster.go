package nodeapitest

import (
	"context"
	"io/fs"
	"slices"
	"sync"

	authenticationapi "k8s.io/api/authentication/v1"
	authorizationapi "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
)

// Token is the only token that a Cluster knows. Its user is "reader", in group "g".
const Token = "good-token"

// Cluster reviews tokens and access, and records the reviews.
type Cluster struct {
	mu sync.Mutex
	// rights are those of each user, as verb/subresource, or * for all.
	rights  map[string][]string
	reviews []authorizationapi.SubjectAccessReviewSpec
	tokens  int
	down    bool
}

// NewCluster returns a cluster in which one user has all rights.
func NewCluster(admin string) *Cluster {
	return &Cluster{rights: map[string][]string{admin: {"*"}}}
}

// Allow replaces the rights of a user, each as verb/subresource, or * for all.
func (c *Cluster) Allow(user string, rights ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rights[user] = rights
}

// Stop makes all further reviews fail.
func (c *Cluster) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = true
}

// Reviewed returns the number of reviews of tokens, and the reviews of access.
func (c *Cluster) Reviewed() (tokens int, access []authorizationapi.SubjectAccessReviewSpec) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tokens, slices.Clone(c.reviews)
}

// TokenReviews returns the API of token reviews.
func (c *Cluster) TokenReviews() authenticationv1.TokenReviewInterface {
	return tokenReviews{cluster: c}
}

// AccessReviews returns the API of access reviews.
func (c *Cluster) AccessReviews() authorizationv1.SubjectAccessReviewInterface {
	return accessReviews{cluster: c}
}

type tokenReviews struct {
	authenticationv1.TokenReviewInterface
	cluster *Cluster
}

func (t tokenReviews) Create(_ context.Context, r *authenticationapi.TokenReview, _ metav1.CreateOptions) (*authenticationapi.TokenReview, error) {
	t.cluster.mu.Lock()
	defer t.cluster.mu.Unlock()
	t.cluster.tokens++
	if t.cluster.down {
		return nil, fs.ErrClosed
	}
	if r.Spec.Token == Token {
		r.Status = authenticationapi.TokenReviewStatus{Authenticated: true, User: authenticationapi.UserInfo{Username: "reader", Groups: []string{"g"}}}
	}
	return r, nil
}

type accessReviews struct {
	authorizationv1.SubjectAccessReviewInterface
	cluster *Cluster
}

func (a accessReviews) Create(_ context.Context, r *authorizationapi.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationapi.SubjectAccessReview, error) {
	a.cluster.mu.Lock()
	defer a.cluster.mu.Unlock()
	a.cluster.reviews = append(a.cluster.reviews, r.Spec)
	if a.cluster.down {
		return nil, fs.ErrClosed
	}
	has := a.cluster.rights[r.Spec.User]
	wants := r.Spec.ResourceAttributes
	r.Status.Allowed = slices.Contains(has, "*") || slices.Contains(has, wants.Verb+"/"+wants.Subresource)
	return r, nil
}
