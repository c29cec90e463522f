// Package complete completes the names of objects on the command line.
//
//	flags, prefix ─► one list request with a deadline ─► names
package complete

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Limits of a completion.
const (
	patience = 3 * time.Second
	maxNames = 500
)

// Clusters completes the first argument with names of Clusters.
func Clusters(flags *access.Flags) cobra.CompletionFunc {
	list := names(flags, (*access.Cluster).Clusters, nil)
	return func(command *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return matching(command.Context(), list, nil, prefix)
	}
}

// Tokens completes all arguments with names of tokens that are not among them.
func Tokens(flags *access.Flags) cobra.CompletionFunc {
	list := names(flags, (*access.Cluster).Tokens, nil)
	return func(command *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return matching(command.Context(), list, args, prefix)
	}
}

// Takeovers completes the first argument with names of Clusters, and the second one with the requests that wait for a
// confirmation.
func Takeovers(flags *access.Flags) cobra.CompletionFunc {
	clusters := Clusters(flags)
	return func(command *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) != 1 {
			return clusters(command, args, prefix)
		}
		waits := func(request *fleet.ClusterRegistration) bool {
			granted := conditions.Get(request.Status.Conditions, conditions.Granted)
			return granted != nil && granted.Reason == conditions.ReasonTakeoverPending && request.Status.ClusterName == args[0]
		}
		return matching(command.Context(), names(flags, (*access.Cluster).Registrations, waits), nil, prefix)
	}
}

// names returns a function that reads the names of the objects of a kind that wanted accepts, of one page at most. A nil
// wanted accepts all.
func names[T access.Object, L runtime.Object](
	flags *access.Flags, kind func(*access.Cluster, string) *access.Client[T, L], wanted func(T) bool,
) func(context.Context) ([]string, error) {
	return func(ctx context.Context) (all []string, err error) {
		hub, err := flags.Open()
		if err != nil {
			return nil, err
		}
		page, err := kind(hub, hub.Namespace).List(ctx, metav1.ListOptions{Limit: maxNames})
		if err != nil {
			return nil, err
		}
		err = meta.EachListItem(page, func(item runtime.Object) error {
			if one := item.(T); wanted == nil || wanted(one) {
				all = append(all, one.GetName())
			}
			return nil
		})
		return all, err
	}
}

// matching returns the names with a prefix that are not among the arguments. Errors give no names.
func matching(ctx context.Context, list func(context.Context) ([]string, error), args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	all, err := list(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveError
	}
	return slices.DeleteFunc(all, func(name string) bool {
		return !strings.HasPrefix(name, prefix) || slices.Contains(args, name)
	}), cobra.ShellCompDirectiveNoFileComp
}
