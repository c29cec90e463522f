// Package clonedcluster decides whether two clusters return with the key of one agent, so that one is a copy of the other.
//
//	recovery request, Cluster ─► Record ─► annotation of the Cluster ─► Alternating ─► pods that return in turn
package clonedcluster
