// Package index adds cache indexes that find related objects without listing all of them.
package index
