// Package standby measures how soon a second replica of the controller works after the leader has ended.
//
//	one replica ─► two ─► the standby has filled its caches, all is quiet ─► kill -9 of the leader ─► first change
//	                                                     the same again   ─► its pod is deleted ────► first change
//
// The change is made after the leader has ended, so only the standby can reconcile it.
package standby
