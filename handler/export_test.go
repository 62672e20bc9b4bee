package handler

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

// Engine is gin's, which New and NewAdmin wrap.
func Engine(h http.Handler) *gin.Engine { return h.(limits).next.(connectionCloser).next.(*gin.Engine) }
