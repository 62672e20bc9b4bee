package handler

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

// Engine returns the gin engine that New and NewAdmin wrap.
func Engine(h http.Handler) *gin.Engine { return h.(limits).next.(connectionCloser).next.(*gin.Engine) }
