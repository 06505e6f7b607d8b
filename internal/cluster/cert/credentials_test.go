package cert

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestACertificateThatIsNotRenewedIsStillUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given a node that had no certificate when it started, and does not renew any
		c, _ := newNode(t)
		c.Rotate = false
		credentials, err := NewCredentials(c)
		must(t, err)
		if !credentials.Missing() || !credentials.Managed() {
			t.Fatal("there is a certificate already")
		}

		// when the cluster has signed one
		must(t, c.bootstrap(t.Context(), newAPI(t, "approve", time.Hour).connect))
		changes := 0
		must(t, credentials.Run(t.Context(), func() { changes++ }))

		// then the clients of the API server show it
		if changes != 1 || credentials.Certificate() == nil {
			t.Errorf("%d changes, and the certificate is %v", changes, credentials.Certificate())
		}
	})
}
