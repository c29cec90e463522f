package accounts

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An agent renews its token, so a shorter lifetime than requested will do. No lasting token is created in its place.
func TestMintRenewed_AcceptsAShorterLifetime(t *testing.T) {
	for name, test := range map[string]struct {
		most  int64
		empty bool
		fails bool
	}{
		"the requested lifetime":           {},
		"a shorter lifetime":               {most: 600},
		"an answer without a token":        {empty: true, fails: true},
		"a short lifetime without a token": {most: 600, empty: true, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			server := newTokenServer()
			server.most, server.empty = test.most, test.empty
			token, err := MintRenewed(t.Context(), server, "ns", "account", 24*time.Hour)
			if (err != nil) != test.fails || (token == "") != test.fails {
				t.Errorf("token %q, error %v", token, err)
			}
			secrets, err := server.CoreV1().Secrets("ns").List(t.Context(), metav1.ListOptions{})
			if err != nil || len(secrets.Items) > 0 {
				t.Errorf("Secrets %v, error %v", secrets.Items, err)
			}
		})
	}
}
