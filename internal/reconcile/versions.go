package reconcile

import (
	"hash/fnv"
	"slices"
)

// Versions stands for the children of owner as the caches show them: it differs once one of them has come, changed or
// gone. Whoever knows that what is wanted has not changed either need not Apply again, which compares every field.
func (s *Set) Versions(owner Owner) (uint64, error) {
	var versions []string
	for _, kind := range s.kinds {
		members, err := kind.members(s.Hash(owner))
		if err != nil {
			return 0, err
		}
		for _, member := range members {
			versions = append(versions, memberKey(kind, member)+" "+string(member.GetUID())+" "+member.GetResourceVersion())
		}
	}
	slices.Sort(versions)
	sum := fnv.New64a()
	for _, version := range versions {
		_, _ = sum.Write([]byte(version + "\n")) // a hash takes everything
	}
	return sum.Sum64(), nil
}
