package handler

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

// ProblemNames returns the names of all problems.
func ProblemNames() (names []string) {
	for _, row := range table() {
		names = append(names, row.name)
	}
	return names
}

// Engine returns the gin engine that New and NewAdmin wrap.
func Engine(h http.Handler) *gin.Engine { return h.(limits).next.(*gin.Engine) }
