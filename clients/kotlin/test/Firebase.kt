// What docs/start/android.md uses of Firebase, so that its code can be compiled without it.
package com.google.firebase.messaging

class Task<T>(private val value: T) {
    fun addOnSuccessListener(listener: (T) -> Unit): Task<T> = also { listener(value) }
}

class FirebaseMessaging private constructor() {
    val token get() = Task("a-token-of-firebase-5")

    companion object {
        @JvmStatic
        fun getInstance() = FirebaseMessaging()
    }
}

class RemoteMessage(val data: Map<String, String>, val notification: Notification?) {
    class Notification(val title: String?)
}

abstract class FirebaseMessagingService {
    open fun onNewToken(token: String) {}
    open fun onMessageReceived(message: RemoteMessage) {}
}
