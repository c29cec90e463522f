package accounts

import (
	"errors"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestReview(t *testing.T) {
	broken := errors.New("the server is upset")
	tests := map[string]struct {
		status authenticationv1.TokenReviewStatus
		err    error
		want   bool
	}{
		"accepted token":                  {status: authenticationv1.TokenReviewStatus{Authenticated: true}, want: true},
		"token of an unknown signing key": {status: authenticationv1.TokenReviewStatus{Error: "invalid bearer token"}},
		"server answers with an error":    {err: broken},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var reviewed string
			client := fake.NewClientset()
			client.PrependReactor("create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
				review := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
				reviewed = review.Spec.Token
				return true, &authenticationv1.TokenReview{Status: test.status}, test.err
			})
			got, err := Review(t.Context(), client, "theirs")
			if got != test.want || !errors.Is(err, test.err) {
				t.Errorf("accepted: %t, error %v", got, err)
			}
			if reviewed != "theirs" {
				t.Errorf("reviewed %q", reviewed)
			}
		})
	}
}
